// The pure function key -> partition index. Clients and owners compute the same.
#pragma once

#include <cstdint>

#include "proto/base/key_hash.h"

namespace tidepool::placement {

// Scales a placement hash to [0, partition_count): the high bits decide (Lemire's multiply-shift,
// https://arxiv.org/abs/1805.10941); the low bits stay free for the partition's index.
constexpr std::uint32_t PartitionIndexOf(std::uint64_t placement_hash,
                                         std::uint32_t partition_count) {
  return static_cast<std::uint32_t>(
      (static_cast<unsigned __int128>(placement_hash) * partition_count) >> 64);
}

inline std::uint32_t PartitionIndexOf(Bytes key, std::uint32_t partition_count) {
  return PartitionIndexOf(PlacementHash(key), partition_count);
}

}  // namespace tidepool::placement
