// The hash namespace as a map between C++ types.
//
// client.OpenOrCreate<HashMap<K, V>>("name") -> [HashMap] -> BytesMap => the core that owns the key
#pragma once

#include <utility>

#include "tidepool/bytes_map.h"
#include "tidepool/codec.h"
#include "tidepool/key_placement.h"
#include "tidepool/namespace.h"
#include "tidepool/typed_map.h"
#include "tidepool/typed_results.h"

namespace tidepool {

namespace internal {

// Reports unsuitable types before any member is instantiated.
template <typename K, typename V, typename Placement>
struct HashMapTypes {
  static_assert(Encodable<K>, "no key: this type needs a Codec (see tidepool/codec_base.h)");
  static_assert(
      EncodableKey<K>,
      "no key: equal values of this type may differ in their bytes (padding, floating-point "
      "members, protobuf messages): use std::pair, tuple or array, or write a Codec");
  static_assert(
      Encodable<V>,
      "no value: this type needs a Codec (see tidepool/codec_base.h); types that hold addresses "
      "have none");
  static_assert(KeyPlacement<Placement, K>, "Placement needs kName and Tag(key)");
};

}  // namespace internal

// A map from K to V, partitioned over the cluster by the hash of the key's encoding. A thin layer
// over BytesMap; typed_map.h declares its operations.
//
// Types: all types with a Codec (codec_base.h lists them). Keys compare by their encodings. A value
// that travels as its memory is sent without a copy in the handle.
//
// Functions take std::string_view for a K or V that is std::string, otherwise const T&. Encoded
// keys have at most 16,384 bytes, encoded values 1 GiB.
//
// There is no reserve(); NamespaceOptions::expected_items sizes the index at creation. Any process
// may create the namespace, and an index that has started to grow has already paid the cost.
//
// `Placement`: see key_placement.h.
template <typename K, typename V, typename Placement = PlacedByKey>
class HashMap : private internal::HashMapTypes<K, V, Placement>,
                public internal::TypedMap<K, V, internal::PlacedCodec<K, Placement>, BytesMap> {
  using KeyCodec = internal::PlacedCodec<K, Placement>;
  using Base = internal::TypedMap<K, V, KeyCodec, BytesMap>;

 public:
  using RecordIterator = tidepool::RecordIterator<KeyCodec, K, V>;
  static constexpr NamespaceKind kKind = NamespaceKind::kHash;

  explicit HashMap(Namespace space) : Base(std::move(space)) {}

  // Iterates over the records in no useful order; BytesMap::Iterate describes concurrent changes.
  RecordIterator NewIterator(const IterateOptions& options = {}, const Cursor& from = {}) const {
    return RecordIterator(this->bytes_.NewIterator(options, from), options.keys_only);
  }
};

}  // namespace tidepool
