// The bits of a value in a Bloom filter, equal in daemons and in clients that read or download a
// filter.
//
// A filter is a row of split blocks: 256 bits as 8 lanes of 32. A value belongs to a split block
// and has a bit in each of its lanes. A single cache line finds all of its bits, and a single
// vector instruction sets them (Putze, Sanders, Singler: "Cache-, Hash- and Space-Efficient Bloom
// Filters"; lanes and constants are from Apache Parquet and Impala).
//
//   storage/block_filter (sets bits) => bytes => [Contains] by whoever has them
//
// Bits are only ever set, a whole lane at a time. A reader beside the owner core sees each lane
// before or after a change, so a value whose insertion was answered is never missed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "proto/base/bytes.h"

namespace tidepool {

inline constexpr int kSplitBlockLanes = 8;
inline constexpr std::size_t kSplitBlockBytes = kSplitBlockLanes * sizeof(std::uint32_t);
inline constexpr std::uint64_t kSplitBlockBits = kSplitBlockBytes * 8;
// Odd, and without a common pattern: the high bits of each product are as good as independent.
inline constexpr std::array<std::uint32_t, kSplitBlockLanes> kSplitBlockSalts = {
    0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31};

// Returns the value's split block among `count`; `hash` is KeyHash(value). The high bits of a hash
// chose the partition already (placement/owner.h): scaled directly, they would reach only a
// fraction of the partition's split blocks. The multiplication brings the low bits up.
constexpr std::uint64_t SplitBlockOf(std::uint64_t hash, std::uint64_t count) {
  constexpr std::uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(hash * kGoldenRatio) * count >>
                                    64);
}

// Returns the value's bit in a lane.
constexpr std::uint32_t SplitBlockBit(std::uint64_t hash, int lane) {
  const std::uint32_t product =
      static_cast<std::uint32_t>(hash) * kSplitBlockSalts[static_cast<std::size_t>(lane)];
  return std::uint32_t{1} << (product >> 27);
}

// Returns whether all bits of the value are set in the split block at `split_block` (32 bytes,
// lanes little-endian, not necessarily aligned).
inline bool SplitBlockContains(const std::byte* split_block, std::uint64_t hash) {
  std::uint32_t missing = 0;
  for (int lane = 0; lane < kSplitBlockLanes; ++lane) {
    const auto bits = LoadUnaligned<std::uint32_t>(split_block + static_cast<std::size_t>(lane) *
                                                                     sizeof(std::uint32_t));
    missing |= SplitBlockBit(hash, lane) & ~bits;
  }
  return missing == 0;
}

// Returns whether a whole contiguous filter, such as a downloaded filter, may contain the value.
// Its size is a multiple of 32 bytes. An empty filter contains nothing.
inline bool FilterContains(Bytes filter, std::uint64_t hash) {
  const std::uint64_t count = filter.size() / kSplitBlockBytes;
  return count != 0 &&
         SplitBlockContains(filter.data() + SplitBlockOf(hash, count) * kSplitBlockBytes, hash);
}

}  // namespace tidepool
