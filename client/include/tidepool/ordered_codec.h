// Codecs that keep the order of keys, for ordered namespaces. Encoded keys compare byte by byte, as
// unsigned numbers; a prefix is less than its continuations.
//
//   K -> [OrderedCodec<K>] -> the bytes of a key
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tidepool/codec.h"
#include "tidepool/export.h"
#include "tidepool/status.h"
#include "tidepool/type_name.h"

namespace tidepool {

// Encodes T in order: a < b exactly if the encoding of a is less than that of b, and each value has
// one encoding. Codecs exist for
//
//   integers, char, enums   big-endian; the sign bit of signed types flipped
//   bool                    a byte 0 or 1
//   float, double           big-endian; the sign bit flipped, for negative numbers all bits. -0.0
//                           becomes 0.0. All NaNs become one value above infinity, so the order
//                           is total.
//   std::string             its bytes. If more fields follow in the key, 0x00 becomes 0x00 0xFF
//                           and 0x00 0x00 ends the string: at most twice as long.
//   std::pair, std::tuple   field by field; likewise std::array
//   std::optional           0x00 for an empty optional, which is least, or 0x01 and the value
//   std::vector             0x01 and the element, for each; 0x00 at the end if more follows
//
// A program specialises OrderedCodec for its own types, best by a tuple of their fields in order:
//
//   template <>
//   struct tidepool::OrderedCodec<Day> {
//     using Fields = std::tuple<int, unsigned, unsigned>;
//     static std::string Name() { return "day"; }
//     static void Append(const Day& day, bool last, std::string* out) {
//       OrderedCodec<Fields>::Append({day.year, day.month, day.day}, last, out);
//     }
//     static bool Take(std::string_view* rest, bool last, Day* day) {
//       Fields fields;
//       if (!OrderedCodec<Fields>::Take(rest, last, &fields)) return false;
//       std::tie(day->year, day->month, day->day) = fields;
//       return true;
//     }
//   };
//
// Append appends the encoding to `out`; `last` means that nothing follows in this key. Without
// `last`, no encoding may be a prefix of another. Take removes an encoding from the front of
// `rest`, all of it if `last`, and returns false for bytes that Append does not write. All
// functions are thread-safe.
template <typename T>
struct OrderedCodec;

template <typename T>
concept OrderedEncodable = std::default_initializable<T> &&
    requires(const T& value, T* read, std::string_view* rest, std::string* out) {
  { OrderedCodec<T>::Name() } -> std::convertible_to<std::string>;
  OrderedCodec<T>::Append(value, true, out);
  { OrderedCodec<T>::Take(rest, true, read) } -> std::same_as<bool>;
};

// Encode a whole key and decode it. Any bytes give a key or kFailedPrecondition.
template <OrderedEncodable T>
std::string EncodeOrdered(const T& key) {
  std::string bytes;
  OrderedCodec<T>::Append(key, true, &bytes);
  return bytes;
}

// Returns the name stored for the type of these keys.
template <OrderedEncodable T>
std::string OrderedName() {
  return "ordered<" + std::string(OrderedCodec<T>::Name()) + ">";
}

template <OrderedEncodable T>
Result<T> DecodeOrdered(std::string_view bytes) {
  T key{};
  std::string_view rest = bytes;
  if (OrderedCodec<T>::Take(&rest, true, &key) && rest.empty()) return key;
  return internal::NotA(OrderedName<T>(), bytes.size());
}

namespace internal {

template <std::unsigned_integral Bits>
void AppendBigEndian(Bits bits, std::string* out) {
  char bytes[sizeof(Bits)];
  for (std::size_t i = 0; i < sizeof(Bits); ++i) {
    bytes[i] = static_cast<char>(bits >> (8 * (sizeof(Bits) - 1 - i)));
  }
  out->append(bytes, sizeof(Bits));
}

template <std::unsigned_integral Bits>
bool TakeBigEndian(std::string_view* rest, Bits* bits) {
  if (rest->size() < sizeof(Bits)) return false;
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(Bits); ++i) {
    value = value << 8 | static_cast<unsigned char>((*rest)[i]);
  }
  *bits = static_cast<Bits>(value);
  rest->remove_prefix(sizeof(Bits));
  return true;
}

// Strings that are followed by more fields of the key.
TIDEPOOL_API void AppendEscaped(std::string_view text, std::string* out);
TIDEPOOL_API bool TakeEscaped(std::string_view* rest, std::string* text);

}  // namespace internal

template <std::integral T>
requires(sizeof(T) <= 8) struct OrderedCodec<T> {
  using Bits = std::make_unsigned_t<T>;
  static constexpr Bits kSign =
      std::is_signed_v<T> ? static_cast<Bits>(Bits{1} << (8 * sizeof(T) - 1)) : Bits{0};

  static std::string Name() { return internal::NameOfRaw<T>(); }
  static void Append(T value, bool /*last*/, std::string* out) {
    internal::AppendBigEndian(static_cast<Bits>(static_cast<Bits>(value) ^ kSign), out);
  }
  static bool Take(std::string_view* rest, bool /*last*/, T* value) {
    Bits bits = 0;
    if (!internal::TakeBigEndian(rest, &bits)) return false;
    *value = static_cast<T>(bits ^ kSign);
    return true;
  }
};

template <>
struct OrderedCodec<bool> {
  static std::string Name() { return "bool"; }
  static void Append(bool value, bool /*last*/, std::string* out) {
    out->push_back(value ? '\1' : '\0');
  }
  static bool Take(std::string_view* rest, bool /*last*/, bool* value) {
    if (rest->empty() || static_cast<unsigned char>(rest->front()) > 1) return false;
    *value = rest->front() == '\1';
    rest->remove_prefix(1);
    return true;
  }
};

template <typename T>
requires std::is_enum_v<T>
struct OrderedCodec<T> {
  using Number = OrderedCodec<std::underlying_type_t<T>>;

  static std::string Name() { return internal::NameOfRaw<T>(); }
  static void Append(T value, bool last, std::string* out) {
    Number::Append(static_cast<std::underlying_type_t<T>>(value), last, out);
  }
  static bool Take(std::string_view* rest, bool last, T* value) {
    std::underlying_type_t<T> number{};
    if (!Number::Take(rest, last, &number)) return false;
    *value = static_cast<T>(number);
    return true;
  }
};

template <typename T>
requires(std::is_same_v<T, float> || std::is_same_v<T, double>) struct OrderedCodec<T> {
  static_assert(std::numeric_limits<T>::is_iec559);
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  static constexpr Bits kSign = Bits{1} << (8 * sizeof(T) - 1);

  static std::string Name() { return internal::NameOfRaw<T>(); }
  static void Append(T value, bool /*last*/, std::string* out) {
    internal::AppendBigEndian(ToBits(value), out);
  }
  static bool Take(std::string_view* rest, bool /*last*/, T* value) {
    Bits bits = 0;
    if (!internal::TakeBigEndian(rest, &bits)) return false;
    *value = std::bit_cast<T>((bits & kSign) != 0 ? bits ^ kSign : ~bits);
    // Refuses another NaN, and -0.0.
    return ToBits(*value) == bits;
  }

 private:
  static Bits ToBits(T value) {
    if (__builtin_isnan(value)) value = std::numeric_limits<T>::quiet_NaN();
    if (value == 0) value = 0;
    const Bits bits = std::bit_cast<Bits>(value);
    return (bits & kSign) != 0 ? ~bits : bits ^ kSign;
  }
};

template <>
struct OrderedCodec<std::string> {
  static std::string Name() { return "string"; }
  static void Append(std::string_view value, bool last, std::string* out) {
    if (last) {
      out->append(value);
    } else {
      internal::AppendEscaped(value, out);
    }
  }
  static bool Take(std::string_view* rest, bool last, std::string* value) {
    if (!last) return internal::TakeEscaped(rest, value);
    value->assign(*rest);
    *rest = {};
    return true;
  }
};

namespace internal {

// Fields in a row; only the last field of a last row is last.
template <typename Row, typename... T>
struct OrderedRowCodec {
  static void Append(const Row& value, bool last, std::string* out) {
    [[maybe_unused]] std::size_t left = sizeof...(T);
    std::apply(
        [&](const T&... field) { (OrderedCodec<T>::Append(field, last && --left == 0, out), ...); },
        value);
  }
  static bool Take(std::string_view* rest, bool last, Row* value) {
    [[maybe_unused]] std::size_t left = sizeof...(T);
    return std::apply(
        [&](T&... field) {
          return (OrderedCodec<T>::Take(rest, last && --left == 0, &field) && ...);
        },
        *value);
  }
};

template <typename... T>
std::string NameOfOrderedRow(std::string_view kind) {
  std::string name(kind);
  [[maybe_unused]] char before = '<';
  ((name += before + std::string(OrderedCodec<T>::Name()), before = ','), ...);
  return name + (sizeof...(T) == 0 ? "<>" : ">");
}

}  // namespace internal

template <OrderedEncodable A, OrderedEncodable B>
struct OrderedCodec<std::pair<A, B>> : internal::OrderedRowCodec<std::pair<A, B>, A, B> {
  static std::string Name() { return internal::NameOfOrderedRow<A, B>("pair"); }
};

template <OrderedEncodable... T>
struct OrderedCodec<std::tuple<T...>> : internal::OrderedRowCodec<std::tuple<T...>, T...> {
  static std::string Name() { return internal::NameOfOrderedRow<T...>("tuple"); }
};

template <OrderedEncodable T, std::size_t kCount>
struct OrderedCodec<std::array<T, kCount>> {
  static std::string Name() {
    return "array<" + std::string(OrderedCodec<T>::Name()) + "," + std::to_string(kCount) + ">";
  }
  static void Append(const std::array<T, kCount>& value, bool last, std::string* out) {
    for (std::size_t i = 0; i < kCount; ++i) {
      OrderedCodec<T>::Append(value[i], last && i + 1 == kCount, out);
    }
  }
  static bool Take(std::string_view* rest, bool last, std::array<T, kCount>* value) {
    for (std::size_t i = 0; i < kCount; ++i) {
      if (!OrderedCodec<T>::Take(rest, last && i + 1 == kCount, &(*value)[i])) return false;
    }
    return true;
  }
};

template <OrderedEncodable T>
struct OrderedCodec<std::optional<T>> {
  static std::string Name() { return internal::NameOfOrderedRow<T>("optional"); }
  static void Append(const std::optional<T>& value, bool last, std::string* out) {
    out->push_back(value.has_value() ? '\1' : '\0');
    if (value.has_value()) OrderedCodec<T>::Append(*value, last, out);
  }
  static bool Take(std::string_view* rest, bool last, std::optional<T>* value) {
    bool there = false;
    value->reset();
    if (!OrderedCodec<bool>::Take(rest, false, &there)) return false;
    return !there || OrderedCodec<T>::Take(rest, last, &value->emplace());
  }
};

template <OrderedEncodable T>
struct OrderedCodec<std::vector<T>> {
  static std::string Name() { return internal::NameOfOrderedRow<T>("vector"); }
  static void Append(const std::vector<T>& value, bool last, std::string* out) {
    for (const T& element : value) {
      out->push_back('\1');
      OrderedCodec<T>::Append(element, false, out);
    }
    if (!last) out->push_back('\0');
  }
  static bool Take(std::string_view* rest, bool last, std::vector<T>* value) {
    value->clear();
    for (bool more = false; !(last && rest->empty());) {
      if (!OrderedCodec<bool>::Take(rest, false, &more)) return false;
      if (!more) return !last;
      T element{};
      if (!OrderedCodec<T>::Take(rest, false, &element)) return false;
      value->push_back(std::move(element));
    }
    return true;
  }
};

}  // namespace tidepool
