// The codecs of the standard library's containers. Part of codec.h, which programs include.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tidepool/codec_base.h"
#include "tidepool/status.h"

namespace tidepool {
namespace internal {

// Fields in a row: those of fixed size as they are, others behind 4 bytes of size. (A field of 4
// GiB is of no use: it does not fit into any value.)
template <typename T>
void AppendField(const T& value, std::string* out) {
  std::string room;
  const std::string_view bytes = Codec<T>::Encode(value, &room);
  if constexpr (!kIsFixed<T>) {
    const auto size = static_cast<std::uint32_t>(bytes.size());
    out->append(reinterpret_cast<const char*>(&size), sizeof size);
  }
  out->append(bytes);
}

// Takes a field from the front of `rest`; nothing if there is none.
template <typename T>
std::optional<T> TakeField(std::string_view* rest) {
  std::uint32_t size = 0;
  if constexpr (kIsFixed<T>) {
    size = Codec<T>::kFixedBytes;
  } else {
    if (rest->size() < sizeof size) return std::nullopt;
    std::memcpy(&size, rest->data(), sizeof size);
    rest->remove_prefix(sizeof size);
  }
  if (rest->size() < size) return std::nullopt;
  Result<T> field = Codec<T>::Decode(rest->substr(0, size));
  rest->remove_prefix(size);
  if (!field.ok()) return std::nullopt;
  return *std::move(field);
}

template <typename... T>
std::string NameOfRow(std::string_view kind) {
  std::string name(kind);
  [[maybe_unused]] char before = '<';
  ((name += before + Codec<T>::Name(), before = ','), ...);
  return name + (sizeof...(T) == 0 ? "<>" : ">");
}

template <typename... T>
struct FixedRow {};
template <typename... T>
requires(kIsFixed<T>&&...) struct FixedRow<T...> {
  static constexpr std::size_t kFixedBytes = (std::size_t{0} + ... + Codec<T>::kFixedBytes);
};

// std::pair and std::tuple.
template <typename Row, typename... T>
struct RowCodec : FixedRow<T...> {
  static constexpr bool kKey = (kMayBeKey<T> && ...);

  static std::string_view Encode(const Row& value, std::string* room) {
    room->clear();
    std::apply([&](const T&... field) { (AppendField<T>(field, room), ...); }, value);
    return *room;
  }
  static Result<Row> Decode(std::string_view bytes) {
    std::string_view rest = bytes;
    // Braces take the fields in their order.
    std::tuple<std::optional<T>...> fields{TakeField<T>(&rest)...};
    return std::apply(
        [&](std::optional<T>&... field) -> Result<Row> {
          if (!rest.empty() || !(field.has_value() && ...)) {
            return NotA(Codec<Row>::Name(), bytes.size());
          }
          return Row(*std::move(field)...);
        },
        fields);
  }
};

// Elements whose memory in a row is the encoding of the row.
template <typename T>
concept RawElement = requires {
  requires Codec<T>::kIsMemory;
};

// Values of any length that are nothing but such elements: what a caller's memory can be filled
// with.
template <typename V>
struct RawElements {
  using Element = char;
  static constexpr bool kHas = false;
};
template <>
struct RawElements<std::string> {
  using Element = char;
  static constexpr bool kHas = true;
};
template <RawElement T>
struct RawElements<std::vector<T>> {
  using Element = T;
  static constexpr bool kHas = true;
};
template <typename V>
using RawElementOf = typename RawElements<V>::Element;
template <typename V>
concept HasRawElements = RawElements<V>::kHas;

template <typename T, std::size_t kCount>
struct FixedElements {};
template <typename T, std::size_t kCount>
requires kIsFixed<T>
struct FixedElements<T, kCount> {
  static constexpr std::size_t kFixedBytes = kCount * Codec<T>::kFixedBytes;
};

template <typename Elements>
std::string_view EncodeElements(const Elements& value, std::string* room) {
  using T = typename Elements::value_type;
  if constexpr (RawElement<T>) {
    return {reinterpret_cast<const char*>(value.data()), value.size() * sizeof(T)};
  } else {
    room->clear();
    for (const T& element : value) AppendField<T>(element, room);
    return *room;
  }
}

}  // namespace internal

template <Encodable A, Encodable B>
struct Codec<std::pair<A, B>> : internal::RowCodec<std::pair<A, B>, A, B> {
  static std::string Name() { return internal::NameOfRow<A, B>("pair"); }
};

template <Encodable... T>
struct Codec<std::tuple<T...>> : internal::RowCodec<std::tuple<T...>, T...> {
  static std::string Name() { return internal::NameOfRow<T...>("tuple"); }
};

template <Encodable T>
struct Codec<std::optional<T>> {
  static constexpr bool kKey = internal::kMayBeKey<T>;

  static std::string Name() { return internal::NameOfRow<T>("optional"); }
  static std::string_view Encode(const std::optional<T>& value, std::string* room) {
    room->assign(1, value.has_value() ? '\1' : '\0');
    if (value.has_value()) {
      std::string inner;
      room->append(Codec<T>::Encode(*value, &inner));
    }
    return *room;
  }
  static Result<std::optional<T>> Decode(std::string_view bytes) {
    if (bytes.size() == 1 && bytes[0] == '\0') return std::optional<T>();
    if (bytes.empty() || bytes[0] != '\1') return internal::NotA(Name(), bytes.size());
    Result<T> value = Codec<T>::Decode(bytes.substr(1));
    if (!value.ok()) return internal::NotA(Name(), bytes.size());
    return std::optional<T>(*std::move(value));
  }
};

// Elements that take no room could not be counted.
template <Encodable T>
requires(!requires { requires Codec<T>::kFixedBytes == 0; }) struct Codec<std::vector<T>> {
  static constexpr bool kInPlace = internal::RawElement<T>;
  static constexpr bool kKey = internal::kMayBeKey<T>;

  static std::string Name() { return internal::NameOfRow<T>("vector"); }
  static std::string_view Encode(const std::vector<T>& value, std::string* room) {
    return internal::EncodeElements(value, room);
  }
  static Result<std::vector<T>> Decode(std::string_view bytes) {
    std::vector<T> elements;
    if constexpr (internal::RawElement<T> && std::is_default_constructible_v<T>) {
      if (bytes.size() % sizeof(T) != 0) return internal::NotA(Name(), bytes.size());
      elements.resize(bytes.size() / sizeof(T));
      if (!bytes.empty()) {
        std::memcpy(static_cast<void*>(elements.data()), bytes.data(), bytes.size());
      }
    } else {
      for (std::string_view rest = bytes; !rest.empty();) {
        std::optional<T> element = internal::TakeField<T>(&rest);
        if (!element.has_value()) return internal::NotA(Name(), bytes.size());
        elements.push_back(*std::move(element));
      }
    }
    return elements;
  }
};

template <Encodable T, std::size_t kCount>
struct Codec<std::array<T, kCount>> : internal::FixedElements<T, kCount> {
  static constexpr bool kIsMemory = internal::RawElement<T> && kCount > 0;
  static constexpr bool kInPlace = internal::RawElement<T>;
  static constexpr bool kKey = internal::kMayBeKey<T>;

  static std::string Name() {
    return "array<" + Codec<T>::Name() + "," + std::to_string(kCount) + ">";
  }
  static std::string_view Encode(const std::array<T, kCount>& value, std::string* room) {
    return internal::EncodeElements(value, room);
  }
  static Result<std::array<T, kCount>> Decode(std::string_view bytes) {
    if constexpr (internal::RawElement<T> && kCount > 0) {
      std::array<char, kCount * sizeof(T)> memory;
      if (bytes.size() != memory.size()) return internal::NotA(Name(), bytes.size());
      std::memcpy(memory.data(), bytes.data(), memory.size());
      return std::bit_cast<std::array<T, kCount>>(memory);
    } else {
      return Take(bytes, std::make_index_sequence<kCount>());
    }
  }

 private:
  template <std::size_t... kAt>
  static Result<std::array<T, kCount>> Take(std::string_view bytes,
                                            std::index_sequence<kAt...> /*all*/) {
    std::string_view rest = bytes;
    std::array<std::optional<T>, kCount> elements{
        (static_cast<void>(kAt), internal::TakeField<T>(&rest))...};
    if (!rest.empty() || !(elements[kAt].has_value() && ...)) {
      return internal::NotA(Name(), bytes.size());
    }
    return std::array<T, kCount>{*std::move(elements[kAt])...};
  }
};

}  // namespace tidepool
