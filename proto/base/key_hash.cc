#include "proto/base/key_hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

namespace tidepool {

std::uint64_t KeyHash(Bytes key) { return XXH3_64bits(key.data(), key.size()); }

Bytes PlacementTag(Bytes key) {
  if (key.empty()) return key;
  if (key[0] == std::byte{0} && AsText(key).starts_with(kManifestKeyPrefix)) [[unlikely]] {
    return PlacementTag(key.subspan(kManifestKeyPrefix.size()));
  }
  const auto* begin = reinterpret_cast<const char*>(key.data());
  const auto* end = begin + key.size();
  const auto* open = static_cast<const char*>(std::memchr(begin, '{', key.size()));
  if (open == nullptr) return key;
  const auto* close = static_cast<const char*>(
      std::memchr(open + 1, '}', static_cast<std::size_t>(end - open - 1)));
  if (close == nullptr || close == open + 1) return key;
  return key.subspan(static_cast<std::size_t>(open + 1 - begin),
                     static_cast<std::size_t>(close - open - 1));
}

std::uint64_t PlacementHash(Bytes key) { return KeyHash(PlacementTag(key)); }

}  // namespace tidepool
