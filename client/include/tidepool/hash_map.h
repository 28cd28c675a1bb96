// The hash namespace as a map from keys to values of C++ types.
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

// Says what is wrong with the types before anything is made of them.
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

// A map from K to V, spread over the cluster by the hash of the key's encoding. A thin layer over
// BytesMap; its operations are in typed_map.h.
//
// Types: those that have a Codec (codec_base.h says which). Keys are compared by their encodings. A
// value that travels as its memory is sent from where it lies, without a copy in the handle.
//
// Functions take std::string_view for a K or V that is std::string, else const T&. Encoded keys are
// at most 16,384 bytes, encoded values 1 GiB.
//
// There is no reserve(): who knows how many records will come says so when the namespace is made
// (NamespaceOptions::expected_items), as any process may be the one that makes it, and an index
// that has begun to grow has paid already.
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

  // The records, in no useful order; BytesMap::Iterate says what concurrent changes do to it.
  RecordIterator NewIterator(const IterateOptions& options = {}, const Cursor& from = {}) const {
    return RecordIterator(this->bytes_.NewIterator(options, from), options.keys_only);
  }
};

}  // namespace tidepool
