// Names of types in namespaces, so that two programs know whether they use the same type.
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

// The name of a type that travels as its memory; specialise it to replace the C++ name. The type
// can then be renamed or moved, and versions of equal size can be distinguished.
//
//   template <>
//   inline constexpr std::string_view tidepool::kTypeName<Particle> = "particle v2";
//
// At most 1,024 printable ASCII characters; otherwise the namespace cannot be created.
template <typename T>
inline constexpr std::string_view kTypeName = {};

namespace internal {

// Returns the C++ name for the ABI name `mangled`, without "(anonymous namespace)::".
TIDEPOOL_API std::string Demangled(const char* mangled);

// Returns kTypeName<T>, or the C++ name. The C++ name is demangled by the SDK's library: g++ and
// clang agree on mangled names, because their objects link with each other. Their own texts
// (__PRETTY_FUNCTION__) differ: "{anonymous}::T" and "(anonymous namespace)::T", "Array<long
// unsigned int>" and "Array<unsigned long>".
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

// Returns the name of a type whose encoding is its memory.
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
