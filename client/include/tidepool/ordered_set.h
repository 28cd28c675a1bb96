// The ordered namespace as a sorted set of keys of a C++ type.
//
// client.OpenOrCreate<OrderedSet<K>>("name") -> [OrderedSet] -> BytesOrderedMap
//   => the core that owns the range
#pragma once

#include <cstdint>
#include <utility>

#include "tidepool/bytes_ordered_map.h"
#include "tidepool/codec.h"
#include "tidepool/namespace.h"
#include "tidepool/ordered_map.h"
#include "tidepool/status.h"
#include "tidepool/typed_set.h"

namespace tidepool {

// A set of K: an OrderedMap<K, Unit> with a set's method names and the guarantees of
// BytesOrderedMap. typed_set.h declares the operations on single keys, OrderedRanges in
// ordered_map.h the ranges.
//
// There is no reserve(); NamespaceOptions::expected_items sizes the index. hash_map.h gives the
// reason.
template <typename K>
class OrderedSet : public internal::OrderedRanges<K>,
                   public internal::TypedSet<OrderedMap<K, Unit>, internal::OrderedKeyCodec<K>> {
  using Map = OrderedMap<K, Unit>;
  using Base = internal::TypedSet<Map, internal::OrderedKeyCodec<K>>;

 public:
  using ScanIterator = typename Map::ScanIterator;
  static constexpr NamespaceKind kKind = NamespaceKind::kOrdered;

  explicit OrderedSet(Namespace space) : Base(std::move(space)) {}

  // Scans the keys of a range in order, or from its end downwards.
  ScanIterator NewScan(const KeyRange& range = {}, ScanOptions options = {}) const {
    options.keys_only = true;
    return this->map_.NewScan(range, options);
  }

  // Return the lowest and the highest key of a range. Errors: kNotFound (no key).
  Result<K> First(const KeyRange& range = {}, const CallOptions& options = {}) const {
    return KeyOf(this->map_.First(range, options));
  }
  Result<K> Last(const KeyRange& range = {}, const CallOptions& options = {}) const {
    return KeyOf(this->map_.Last(range, options));
  }

  // As BytesOrderedMap.
  Result<std::uint64_t> CountRange(const KeyRange& range, const CallOptions& options = {}) const {
    return this->map_.CountRange(range, options);
  }
  Result<std::uint64_t> EraseRange(const KeyRange& range, const CallOptions& options = {}) const {
    return this->map_.EraseRange(range, options);
  }

 private:
  static Result<K> KeyOf(Result<std::pair<K, Unit>> found) {
    if (!found.ok()) return found.status();
    return std::move(found->first);
  }
};

}  // namespace tidepool
