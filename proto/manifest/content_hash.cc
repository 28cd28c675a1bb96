#include "proto/manifest/content_hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdio>

namespace tidepool::manifest {

struct ContentHash::State {
  XXH3_state_t xxh;
};

std::string Hash128::Hex() const {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(high),
                static_cast<unsigned long long>(low));
  return text;
}

Hash128 HashOf(Bytes content) {
  const XXH128_hash_t hash = XXH3_128bits(content.data(), content.size());
  return {hash.high64, hash.low64};
}

ContentHash::ContentHash() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }
ContentHash::~ContentHash() = default;

void ContentHash::Add(Bytes piece) {
  XXH3_128bits_update(&state_->xxh, piece.data(), piece.size());
}

Hash128 ContentHash::Finish() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh);
  return {hash.high64, hash.low64};
}

}  // namespace tidepool::manifest
