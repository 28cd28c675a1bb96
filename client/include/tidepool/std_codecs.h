// Codecs of the standard library's containers. Part of codec.h, which programs include.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "tidepool/codec_base.h"
#include "tidepool/status.h"

namespace tidepool {
namespace internal {

// Appends a field: fixed-size fields as they are, other fields behind 4 bytes of size. (4 bytes are
// enough because values have at most 1 GiB.)
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

// Removes a field from the front of `rest`; returns nothing if there is none.
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

// Codec of std::pair and std::tuple.
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
    // Braces evaluate the fields in order.
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

// Elements that lie in memory as they are encoded.
template <typename T>
concept RawElement = requires {
  requires Codec<T>::kIsMemory;
};

// Values of any length that consist of raw elements only, so a caller's memory can receive them.
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

// Elements without bytes cannot be counted, so they are refused.
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

template <>
struct Codec<std::monostate> {
  static constexpr std::size_t kFixedBytes = 0;
  static constexpr bool kInPlace = true;

  static std::string Name() { return "monostate"; }
  static std::string_view Encode(const std::monostate& /*value*/, std::string* /*room*/) {
    return {};
  }
  static Result<std::monostate> Decode(std::string_view bytes) {
    if (!bytes.empty()) return internal::NotA(Name(), bytes.size());
    return std::monostate{};
  }
};

// One byte holds the index of the alternative. A variant left without a value by an exception
// encodes as the byte 0xff, which every reader refuses.
template <Encodable... T>
requires(sizeof...(T) > 0 && sizeof...(T) < 0xff) struct Codec<std::variant<T...>> {
  using Variant = std::variant<T...>;
  static constexpr bool kKey = (internal::kMayBeKey<T> && ...);

  static std::string Name() { return internal::NameOfRow<T...>("variant"); }
  static std::string_view Encode(const Variant& value, std::string* room) {
    if (value.valueless_by_exception()) return room->assign(1, '\xff');
    room->assign(1, static_cast<char>(value.index()));
    std::visit(
        [room]<typename Alternative>(const Alternative& alternative) {
          std::string inner;
          room->append(Codec<Alternative>::Encode(alternative, &inner));
        },
        value);
    return *room;
  }
  static Result<Variant> Decode(std::string_view bytes) {
    const std::size_t index = bytes.empty() ? 0xff : static_cast<unsigned char>(bytes[0]);
    std::optional<Variant> value;
    if (index < sizeof...(T)) {
      Take(bytes.substr(1), index, &value, std::index_sequence_for<T...>());
    }
    if (!value.has_value()) return internal::NotA(Name(), bytes.size());
    return *std::move(value);
  }

 private:
  template <std::size_t... kAt>
  static void Take(std::string_view bytes, std::size_t index, std::optional<Variant>* value,
                   std::index_sequence<kAt...> /*all*/) {
    (TakeAs<kAt>(bytes, index, value), ...);
  }
  template <std::size_t kAt>
  static void TakeAs(std::string_view bytes, std::size_t index, std::optional<Variant>* value) {
    if (index != kAt) return;
    using Alternative = std::variant_alternative_t<kAt, Variant>;
    Result<Alternative> alternative = Codec<Alternative>::Decode(bytes);
    if (alternative.ok()) value->emplace(std::in_place_index<kAt>, *std::move(alternative));
  }
};

namespace internal {

// Codec of std::map, std::set and their unordered forms: elements in a row. The order follows from
// the value, so equal values have equal encodings. An element is a key, or a pair of key and value.
// A reader refuses any other order and repeated keys.
template <typename Container, typename... Element>
struct AssociativeCodec {
  static constexpr bool kKey = (kMayBeKey<Element> && ...);

  static std::string_view Encode(const Container& value, std::string* room) {
    room->clear();
    if constexpr (kIsSorted) {
      for (const auto& element : value) AppendElement(element, room);
    } else {
      std::vector<std::string> encodings(value.size());
      auto to = encodings.begin();
      for (const auto& element : value) AppendElement(element, &*to++);
      std::sort(encodings.begin(), encodings.end());
      for (const std::string& encoding : encodings) room->append(encoding);
    }
    return *room;
  }

  static Result<Container> Decode(std::string_view bytes) {
    Container value;
    std::string_view before;
    for (std::string_view rest = bytes; !rest.empty();) {
      const std::string_view from = rest;
      // Braces evaluate the fields in order.
      std::tuple<std::optional<Element>...> fields{TakeField<Element>(&rest)...};
      const std::string_view encoding = from.substr(0, from.size() - rest.size());
      if (!Add(std::move(fields), encoding, before, &value)) {
        return NotA(Codec<Container>::Name(), bytes.size());
      }
      before = encoding;
    }
    return value;
  }

 private:
  static constexpr bool kIsSorted = requires { typename Container::key_compare; };

  template <typename Each>
  static void AppendElement(const Each& element, std::string* out) {
    if constexpr (sizeof...(Element) == 1) {
      (AppendField<Element>(element, out), ...);
    } else {
      std::apply([out](const Element&... field) { (AppendField<Element>(field, out), ...); },
                 element);
    }
  }

  static bool Add(std::tuple<std::optional<Element>...> fields, std::string_view encoding,
                  std::string_view before, Container* value) {
    return std::apply(
        [&](std::optional<Element>&... field) {
          if (!(field.has_value() && ...)) return false;
          if constexpr (kIsSorted) {
            const std::size_t size = value->size();
            const auto added = value->emplace_hint(value->end(), *std::move(field)...);
            return value->size() > size && std::next(added) == value->end();
          } else {
            if (!value->empty() && !(before < encoding)) return false;
            return value->emplace(*std::move(field)...).second;
          }
        },
        fields);
  }
};

// Elements without bytes cannot be counted.
template <typename T>
inline constexpr bool kIsEmpty = requires {
  requires Codec<T>::kFixedBytes == 0;
};
template <typename... T>
inline constexpr bool kTakesRoom = !(kIsEmpty<T> && ...);

}  // namespace internal

// Containers with their own order, hash or equality have no codec: another program could not know
// which keys are equal.
template <Encodable K, Encodable V>
requires internal::kTakesRoom<K, V>
struct Codec<std::map<K, V>> : internal::AssociativeCodec<std::map<K, V>, K, V> {
  static std::string Name() { return internal::NameOfRow<K, V>("map"); }
};

template <Encodable K>
requires internal::kTakesRoom<K>
struct Codec<std::set<K>> : internal::AssociativeCodec<std::set<K>, K> {
  static std::string Name() { return internal::NameOfRow<K>("set"); }
};

template <Encodable K, Encodable V>
requires internal::kTakesRoom<K, V>
struct Codec<std::unordered_map<K, V>>
    : internal::AssociativeCodec<std::unordered_map<K, V>, K, V> {
  static std::string Name() { return internal::NameOfRow<K, V>("unordered_map"); }
};

template <Encodable K>
requires internal::kTakesRoom<K>
struct Codec<std::unordered_set<K>> : internal::AssociativeCodec<std::unordered_set<K>, K> {
  static std::string Name() { return internal::NameOfRow<K>("unordered_set"); }
};

}  // namespace tidepool
