// The one hash of keys, the same on clients, daemons and disk: XXH3-64 with seed 0.
//
// Placement takes its high bits (owner.h scales it to the partition count), the index of a
// partition its low bits and above, so that the two do not repeat each other.
#pragma once

#include <cstdint>
#include <string_view>

#include "proto/base/bytes.h"

namespace tidepool {

std::uint64_t KeyHash(Bytes key);

// What staging knows of a file is kept under this prefix and the file's key (proto/manifest).
inline constexpr std::string_view kManifestKeyPrefix("\0manifest\0", 10);

// The bytes of `key` that decide its placement: what stands between the first '{' and the next '}'
// if that is not empty (Redis's rule), else the whole key. Keys with the same tag share a
// partition, and so do a key and what the manifest keeps of it.
Bytes PlacementTag(Bytes key);

// KeyHash of PlacementTag.
std::uint64_t PlacementHash(Bytes key);
// The same for who has KeyHash(key) already: few keys have a tag.
inline std::uint64_t PlacementHash(Bytes key, std::uint64_t key_hash) {
  const Bytes tag = PlacementTag(key);
  return tag.data() == key.data() && tag.size() == key.size() ? key_hash : KeyHash(tag);
}

}  // namespace tidepool
