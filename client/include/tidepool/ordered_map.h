// The ordered namespace as a map from keys to values of C++ types, in the order of the keys.
//
// client.OpenOrCreate<OrderedMap<K, V>>("name") -> [OrderedMap] -> BytesOrderedMap
//   => the core that owns the range
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "tidepool/bytes_ordered_map.h"
#include "tidepool/codec.h"
#include "tidepool/namespace.h"
#include "tidepool/ordered_codec.h"
#include "tidepool/status.h"
#include "tidepool/typed_map.h"
#include "tidepool/typed_results.h"

namespace tidepool {

namespace internal {

// How an ordered handle encodes its keys.
template <typename K>
struct OrderedKeyCodec {
  static constexpr bool kInPlace = false;

  static std::string Name() { return OrderedName<K>(); }
  static std::string_view Encode(ArgumentOf<K> key, std::string* room) {
    room->clear();
    OrderedCodec<K>::Append(key, true, room);
    return *room;
  }
  static Result<K> Decode(std::string_view bytes) { return DecodeOrdered<K>(bytes); }
};

// Says what is wrong with the types before anything is made of them.
template <typename K, typename V>
struct OrderedMapTypes {
  static_assert(OrderedEncodable<K>,
                "no key in order: this type needs an OrderedCodec (see tidepool/ordered_codec.h)");
  static_assert(
      Encodable<V>,
      "no value: this type needs a Codec (see tidepool/codec_base.h); types that hold addresses "
      "have none");
};

// The ranges of keys of an ordered handle.
template <typename K>
class OrderedRanges {
  using Argument = ArgumentOf<K>;

 public:
  // From `begin` on; up to but without `end`; from the one up to but without, or up to and with,
  // the other.
  static KeyRange From(Argument begin) { return {.begin = Encoded(begin)}; }
  static KeyRange Below(Argument end) { return {.end = Encoded(end)}; }
  static KeyRange Between(Argument begin, Argument end) {
    return {.begin = Encoded(begin), .end = Encoded(end)};
  }
  static KeyRange Through(Argument begin, Argument last) {
    // No key lies between one and itself with a zero byte.
    return {.begin = Encoded(begin), .end = Encoded(last) + '\0'};
  }

  // Strings that begin with `prefix`.
  static KeyRange StartingWith(std::string_view prefix) requires std::same_as<K, std::string> {
    return KeyRange::Prefix(prefix);
  }
  // Pairs, tuples and arrays whose first fields are these: not all of them.
  template <typename... Fields>
  static KeyRange StartingWith(const Fields&... fields) requires(sizeof...(Fields) > 0 &&
                                                                 sizeof...(Fields) <
                                                                     std::tuple_size<K>::value) {
    std::string prefix;
    AppendFields(&prefix, std::index_sequence_for<Fields...>(), fields...);
    return KeyRange::Prefix(prefix);
  }

 private:
  static std::string Encoded(Argument key) {
    std::string bytes;
    OrderedCodec<K>::Append(key, true, &bytes);
    return bytes;
  }
  template <std::size_t... kIndex, typename... Fields>
  static void AppendFields(std::string* prefix, std::index_sequence<kIndex...>,
                           const Fields&... fields) {
    (OrderedCodec<std::tuple_element_t<kIndex, K>>::Append(fields, false, prefix), ...);
  }
};

}  // namespace internal

// A map from K to V whose keys are in the order of their type: numbers by value, strings by bytes,
// pairs, tuples, arrays and vectors field by field. A thin layer over BytesOrderedMap, with its
// promises; the operations on single keys are in typed_map.h, the ranges in OrderedRanges above.
//
//   using Events = OrderedMap<std::pair<std::string, std::int64_t>, Event>;
//   for (auto it = events.NewScan(Events::StartingWith("sensor7")); it.Next();) Use(it.value());
//
// Types: keys that have an OrderedCodec (ordered_codec.h), values that have a Codec. Functions take
// std::string_view for a K or V that is std::string, else const T&. Encoded keys are at most 16,384
// bytes, encoded values 1 GiB.
//
// There is no reserve(): NamespaceOptions::expected_items makes room, for the reason that
// hash_map.h gives.
template <typename K, typename V>
class OrderedMap : private internal::OrderedMapTypes<K, V>,
                   public internal::OrderedRanges<K>,
                   public internal::TypedMap<K, V, internal::OrderedKeyCodec<K>, BytesOrderedMap> {
  using KeyCodec = internal::OrderedKeyCodec<K>;
  using Base = internal::TypedMap<K, V, KeyCodec, BytesOrderedMap>;

 public:
  using ScanIterator = tidepool::RecordIterator<KeyCodec, K, V, tidepool::ScanIterator>;
  static constexpr NamespaceKind kKind = NamespaceKind::kOrdered;

  explicit OrderedMap(Namespace space) : Base(std::move(space)) {}

  // The records of a range in order, or from its end downwards.
  ScanIterator NewScan(const KeyRange& range = {}, const ScanOptions& options = {}) const {
    return ScanIterator(this->bytes_.NewScan(range, options), options.keys_only);
  }

  // The lowest and the highest key of a range, with its value. kNotFound: there is none.
  Result<std::pair<K, V>> First(const KeyRange& range = {}, const CallOptions& options = {}) const {
    return Decoded(this->bytes_.First(range, options));
  }
  Result<std::pair<K, V>> Last(const KeyRange& range = {}, const CallOptions& options = {}) const {
    return Decoded(this->bytes_.Last(range, options));
  }

  // As BytesOrderedMap.
  Result<std::uint64_t> CountRange(const KeyRange& range, const CallOptions& options = {}) const {
    return this->bytes_.CountRange(range, options);
  }
  Result<std::uint64_t> EraseRange(const KeyRange& range, const CallOptions& options = {}) const {
    return this->bytes_.EraseRange(range, options);
  }

 private:
  static Result<std::pair<K, V>> Decoded(Result<Entry> entry) {
    if (!entry.ok()) return entry.status();
    Result<K> key = KeyCodec::Decode(entry->key);
    if (!key.ok()) return key.status();
    Result<V> value = internal::DecodeValue<V>(std::move(entry->value));
    if (!value.ok()) return value.status();
    return std::pair<K, V>(*std::move(key), *std::move(value));
  }
};

}  // namespace tidepool
