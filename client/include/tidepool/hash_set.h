// The hash namespace as a set of keys of a C++ type.
//
// client.OpenOrCreate<HashSet<K>>("name") -> [HashSet] -> BytesMap => the core that owns the key
#pragma once

#include <utility>

#include "tidepool/bytes_map.h"
#include "tidepool/codec.h"
#include "tidepool/hash_map.h"
#include "tidepool/key_placement.h"
#include "tidepool/namespace.h"
#include "tidepool/typed_set.h"

namespace tidepool {

// A set of K: a HashMap<K, Unit> with a set's method names and the same guarantees. A key takes its
// bytes and the 32 bytes of a record, nothing for a value. typed_set.h declares the operations.
//
// There is no reserve(); NamespaceOptions::expected_items sizes the index. hash_map.h gives the
// reason.
template <typename K, typename Placement = PlacedByKey>
class HashSet
    : public internal::TypedSet<HashMap<K, Unit, Placement>, internal::PlacedCodec<K, Placement>> {
  using Map = HashMap<K, Unit, Placement>;
  using Base = internal::TypedSet<Map, internal::PlacedCodec<K, Placement>>;

 public:
  using RecordIterator = typename Map::RecordIterator;
  static constexpr NamespaceKind kKind = NamespaceKind::kHash;

  explicit HashSet(Namespace space) : Base(std::move(space)) {}

  // Iterates over the keys in no useful order; BytesMap::Iterate describes concurrent changes.
  RecordIterator NewIterator(IterateOptions options = {}, const Cursor& from = {}) const {
    options.keys_only = true;
    return this->map_.NewIterator(options, from);
  }
};

}  // namespace tidepool
