// The ordered namespace as a sorted map between C++ types.
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

// Encodes the keys of an ordered handle.
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

// Reports unsuitable types before any member is instantiated.
template <typename K, typename V>
struct OrderedMapTypes {
  static_assert(OrderedEncodable<K>,
                "no key in order: this type needs an OrderedCodec (see tidepool/ordered_codec.h)");
  static_assert(
      Encodable<V>,
      "no value: this type needs a Codec (see tidepool/codec_base.h); types that hold addresses "
      "have none");
};

// Makes ranges of an ordered handle's keys.
template <typename K>
class OrderedRanges {
  using Argument = ArgumentOf<K>;

 public:
  // Return the keys from `begin` on (From), below `end` (Below), from `begin` up to but not
  // including `end` (Between), and from `begin` up to and including `last` (Through).
  static KeyRange From(Argument begin) { return {.begin = Encoded(begin)}; }
  static KeyRange Below(Argument end) { return {.end = Encoded(end)}; }
  static KeyRange Between(Argument begin, Argument end) {
    return {.begin = Encoded(begin), .end = Encoded(end)};
  }
  static KeyRange Through(Argument begin, Argument last) {
    // No key lies between a key and the same key with a zero byte appended.
    return {.begin = Encoded(begin), .end = Encoded(last) + '\0'};
  }

  // Returns the range of all strings that begin with `prefix`.
  static KeyRange StartingWith(std::string_view prefix) requires std::same_as<K, std::string> {
    return KeyRange::Prefix(prefix);
  }
  // Returns the range of all pairs, tuples or arrays with these first fields; not for all fields.
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

// A sorted map from K to V. Keys follow the order of their type: numbers by value, strings by
// bytes, pairs, tuples, arrays and vectors field by field. A thin layer over BytesOrderedMap, with
// its guarantees. typed_map.h declares the operations on single keys, OrderedRanges above the
// ranges.
//
//   using Events = OrderedMap<std::pair<std::string, std::int64_t>, Event>;
//   for (auto it = events.NewScan(Events::StartingWith("sensor7")); it.Next();) Use(it.value());
//
// Types: keys with an OrderedCodec (ordered_codec.h), values with a Codec. Functions take
// std::string_view for a K or V that is std::string, otherwise const T&. Encoded keys have at most
// 16,384 bytes, encoded values 1 GiB.
//
// There is no reserve(); NamespaceOptions::expected_items sizes the index. hash_map.h gives the
// reason.
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

  // Scans the records of a range in order, or from its end downwards.
  ScanIterator NewScan(const KeyRange& range = {}, const ScanOptions& options = {}) const {
    return ScanIterator(this->bytes_.NewScan(range, options), options.keys_only);
  }

  // Return the lowest and the highest key of a range with its value. Errors: kNotFound (no key).
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
