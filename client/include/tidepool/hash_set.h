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

// A set of K: a HashMap<K, Unit>, with the words of a set, and the same promises. Keys take their
// bytes and the record's 32, nothing for a value. The operations are in typed_set.h.
//
// There is no reserve(): NamespaceOptions::expected_items makes room, for the reason that
// hash_map.h gives.
template <typename K, typename Placement = PlacedByKey>
class HashSet
    : public internal::TypedSet<HashMap<K, Unit, Placement>, internal::PlacedCodec<K, Placement>> {
  using Map = HashMap<K, Unit, Placement>;
  using Base = internal::TypedSet<Map, internal::PlacedCodec<K, Placement>>;

 public:
  using RecordIterator = typename Map::RecordIterator;
  static constexpr NamespaceKind kKind = NamespaceKind::kHash;

  explicit HashSet(Namespace space) : Base(std::move(space)) {}

  // The keys, in no useful order; BytesMap::Iterate says what concurrent changes do to it.
  RecordIterator NewIterator(IterateOptions options = {}, const Cursor& from = {}) const {
    options.keys_only = true;
    return this->map_.NewIterator(options, from);
  }
};

}  // namespace tidepool
