// What a codec is: how keys and values of C++ types become bytes and come back. The codecs
// themselves are in codec.h, which programs include.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>

#include "tidepool/export.h"
#include "tidepool/status.h"

namespace tidepool {

// The encoding of a type. There are codecs for
//
//   numbers, bool, enums, structs   their memory. A struct must be trivially copyable; its padding
//                                   travels too, whatever it holds, and so does its byte order:
//                                   little-endian. Types that hold addresses (pointers, references,
//                                   views) are refused where the compiler can see it: the first 24
//                                   members of an aggregate.
//   std::string                     its bytes; functions take std::string_view for it
//   std::vector, std::array         their elements in a row: of a fixed size as they are, others
//   std::pair, std::tuple           behind 4 bytes of size
//   std::optional                   a byte 0, or a byte 1 and the value
//   std::variant                    a byte with the number of the alternative, and its value
//   std::map, std::set              keys, with their values, in a row as in std::vector, in the
//   std::unordered_map, _set        order of the keys; unordered ones in the order of the encodings
//   protobuf messages               their serialization
//
// and a type of one's own gets one by a specialisation, which counts for it inside of the above
// too:
//
//   template <>
//   struct tidepool::Codec<Matrix> {
//     // What is compared when a namespace is opened: change it with the encoding.
//     static std::string Name() { return "matrix"; }
//     // Returns the encoding: a view of `value`, or of `*room`, which may be filled for that.
//     static std::string_view Encode(const Matrix& value, std::string* room);
//     // Total: any bytes give a value, or a Status: kFailedPrecondition.
//     static tidepool::Result<Matrix> Decode(std::string_view bytes);
//   };
//
// Optional members:
//   kFixedBytes   all encodings have this size
//   kInPlace      true: Encode never uses `room`
//   kKey          false: no key may have this type, since equal values may have different encodings
//   Argument      what functions take instead of const T&
//
// All functions are thread-safe. Numbers inside a struct that are no valid values (a bool of 2) are
// not noticed; by themselves they are.
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

// kFailedPrecondition: so many bytes are no `type`.
TIDEPOOL_API Status NotA(const std::string& type, std::size_t bytes);
// Prints that a message lacks required fields, and ends the program.
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

// T can be a key: equal values have equal encodings. Structs with padding or floating-point members
// are not, nor are protobuf messages, whose serialization is not unique. (Plain `double` is: keys
// are compared by their bytes, so 0.0 and -0.0 are two.)
template <typename T>
concept EncodableKey = Encodable<T> && internal::kMayBeKey<T>;

// What functions of typed handles take for a T.
template <typename T>
using ArgumentOf = typename internal::ArgumentTrait<T>::Type;

}  // namespace tidepool
