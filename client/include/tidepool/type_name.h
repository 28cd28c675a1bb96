// How types are called in namespaces, so that two programs know whether they mean the same.
//
//   program's type -> [name] -> stored with the namespace when it is created, compared when opened
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>

#include "tidepool/export.h"

namespace tidepool {

// The name of a type that travels as its memory, if it shall not be its C++ name: so that it may be
// renamed or moved to another namespace, or to tell versions apart whose sizes are equal.
//
//   template <>
//   inline constexpr std::string_view tidepool::kTypeName<Particle> = "particle v2";
//
// At most 1,024 printable ASCII characters, else the namespace cannot be created.
template <typename T>
inline constexpr std::string_view kTypeName = {};

namespace internal {

// The C++ name of the type that the ABI calls `mangled`; "(anonymous namespace)::" is left out.
TIDEPOOL_API std::string Demangled(const char* mangled);

// kTypeName<T>, else the C++ name. That comes from the mangled name, which g++ and clang must agree
// on because they link with each other, by way of one demangler, that of the SDK's library. What
// the compilers themselves print (__PRETTY_FUNCTION__) differs: "{anonymous}::T" and "(anonymous
// namespace)::T", "Array<long unsigned int>" and "Array<unsigned long>".
template <typename T>
std::string NameOf() {
  if constexpr (!kTypeName<T>.empty()) {
    return std::string(kTypeName<T>);
  } else {
#if defined(__cpp_rtti) || defined(__GXX_RTTI)
    return Demangled(typeid(T).name());
#else
    static_assert(!kTypeName<T>.empty(), "without RTTI, specialise tidepool::kTypeName for this");
    return {};
#endif
  }
}

// The name of a type whose encoding is its memory.
template <typename T>
std::string NameOfRaw() {
  const std::string bits = std::to_string(8 * sizeof(T));
  if constexpr (std::is_same_v<T, bool>) {
    return "bool";
  } else if constexpr (std::is_same_v<T, char>) {
    return "char";
  } else if constexpr (std::is_enum_v<T>) {
    return "enum<" + NameOf<T>() + "," + NameOfRaw<std::underlying_type_t<T>>() + ">";
  } else if constexpr (std::is_integral_v<T>) {
    return (std::is_signed_v<T> ? "i" : "u") + bits;
  } else if constexpr (std::is_floating_point_v<T>) {
    return "f" + bits;
  } else {
    return "raw<" + NameOf<T>() + "," + std::to_string(sizeof(T)) + ">";
  }
}

}  // namespace internal
}  // namespace tidepool
