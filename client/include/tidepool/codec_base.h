// The codec interface: encodes keys and values of C++ types as bytes and decodes them. codec.h,
// which programs include, has the codecs themselves.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>

#include "tidepool/export.h"
#include "tidepool/status.h"

namespace tidepool {

// The encoding of a type. Codecs exist for
//
//   numbers, bool, enums, structs   their memory, little-endian. A struct must be trivially
//                                   copyable; its padding travels too, with any content. Types with
//                                   addresses (pointers, references, views) are refused where the
//                                   compiler sees it: in the first 24 members of an aggregate.
//   std::string                     its bytes; functions take std::string_view for it
//   std::vector, std::array         their elements in a row: fixed-size elements as they are, other
//   std::pair, std::tuple           elements behind 4 bytes of size
//   std::optional                   a byte 0, or a byte 1 and the value
//   std::variant                    a byte with the index of the alternative, and its value
//   std::map, std::set              keys, with their values, in a row as in std::vector, in the
//   std::unordered_map, _set        order of the keys; unordered ones in the order of the encodings
//   protobuf messages               their serialization
//
// A program specialises Codec for its own types. The specialisation also applies inside the
// containers above:
//
//   template <>
//   struct tidepool::Codec<Matrix> {
//     // Compared when a namespace is opened: change it with the encoding.
//     static std::string Name() { return "matrix"; }
//     // Returns the encoding: a view of `value`, or of `*room`, which it may fill.
//     static std::string_view Encode(const Matrix& value, std::string* room);
//     // Total: any bytes give a value or kFailedPrecondition.
//     static tidepool::Result<Matrix> Decode(std::string_view bytes);
//   };
//
// Optional members:
//   kFixedBytes   size of all encodings
//   kInPlace      true: Encode never uses `room`
//   kKey          false: the type cannot be a key, because equal values may have different
//                 encodings
//   Argument      parameter type of functions, instead of const T&
//
// All functions are thread-safe. Invalid numbers inside a struct (a bool of 2) are not noticed;
// single numbers are checked.
template <typename T>
struct Codec;

// T can be a value.
template <typename T>
concept Encodable = requires(const T& value, std::string* room, std::string_view bytes) {
  { Codec<T>::Name() } -> std::convertible_to<std::string>;
  { Codec<T>::Encode(value, room) } -> std::convertible_to<std::string_view>;
  { Codec<T>::Decode(bytes) } -> std::same_as<Result<T>>;
};

namespace internal {

// Returns kFailedPrecondition: these bytes are not a `type`.
TIDEPOOL_API Status NotA(const std::string& type, std::size_t bytes);
// Prints that a message lacks required fields and ends the program.
[[noreturn]] TIDEPOOL_API void EndForIncompleteMessage(const std::string& type);

template <typename T>
inline constexpr bool kIsFixed = requires {
  Codec<T>::kFixedBytes;
};
template <typename T>
inline constexpr bool kIsInPlace = false;
template <typename T>
requires requires { Codec<T>::kInPlace; }
inline constexpr bool kIsInPlace<T> = Codec<T>::kInPlace;
template <typename T>
inline constexpr bool kMayBeKey = true;
template <typename T>
requires requires { Codec<T>::kKey; }
inline constexpr bool kMayBeKey<T> = Codec<T>::kKey;

template <typename T>
struct ArgumentTrait {
  using Type = const T&;
};
template <typename T>
requires requires { typename Codec<T>::Argument; }
struct ArgumentTrait<T> {
  using Type = typename Codec<T>::Argument;
};

}  // namespace internal

// T can be a key: equal values have equal encodings. Excludes structs with padding or
// floating-point members, and protobuf messages, whose serialization is not unique. Plain `double`
// is allowed, but 0.0 and -0.0 are different keys, because keys compare by bytes.
template <typename T>
concept EncodableKey = Encodable<T> && internal::kMayBeKey<T>;

// Parameter type of typed handles for a T.
template <typename T>
using ArgumentOf = typename internal::ArgumentTrait<T>::Type;

}  // namespace tidepool
