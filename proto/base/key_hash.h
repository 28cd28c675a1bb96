// The hash of keys on clients, daemons and disk: XXH3-64 with seed 0.
//
// Placement takes its high bits (owner.h scales it to the partition count). The index of a
// partition takes its low bits and above, so the two are independent.
#pragma once

#include <cstdint>
#include <string_view>

#include "proto/base/bytes.h"

namespace tidepool {

std::uint64_t KeyHash(Bytes key);

// Prefix of staging's records about a file, before the file's key (proto/manifest).
inline constexpr std::string_view kManifestKeyPrefix("\0manifest\0", 10);

// Returns the bytes of `key` that decide its placement: the bytes between the first '{' and the
// next '}' if not empty (Redis's rule), otherwise the whole key. Keys with equal tags share a
// partition; a key and its manifest record also share it.
Bytes PlacementTag(Bytes key);

// Returns KeyHash of PlacementTag.
std::uint64_t PlacementHash(Bytes key);
// Returns PlacementHash(key) for callers that already have KeyHash(key): few keys have a tag.
inline std::uint64_t PlacementHash(Bytes key, std::uint64_t key_hash) {
  const Bytes tag = PlacementTag(key);
  return tag.data() == key.data() && tag.size() == key.size() ? key_hash : KeyHash(tag);
}

}  // namespace tidepool
