// The hash that goes with each piece of a partition's image: of it and, by the one before, of all
// pieces before it.
#pragma once

#include <bit>
#include <cstdint>

#include "proto/base/bytes.h"
#include "proto/base/key_hash.h"

namespace tidepool::daemon {

inline std::uint64_t HashOfPiece(std::uint64_t before, Bytes piece) {
  return KeyHash(piece) ^ std::rotl(before * 0x9e3779b97f4a7c15ull, 23);
}

}  // namespace tidepool::daemon
