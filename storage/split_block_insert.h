// Setting the bits of a value in its split block: the inner loop of every insert into a filter.
//
// BlockFilter::InsertAndTell -> [split_block::Insert...]. AVX2 does it in about ten instructions,
// x86-64's baseline and other machines in ten per lane; both set the same bits.
#pragma once

#include <cstdint>
#include <span>

#include "proto/base/split_block.h"
#include "storage/tag_match.h"

namespace tidepool::storage::split_block {

// Sets the value's bits in the split block at `at`, which is aligned to 32 bytes. Returns how many
// of the 8 bits were not set before.
inline unsigned InsertPortable(std::byte* at, std::uint64_t hash) {
  unsigned added = 0;
  for (int lane = 0; lane < kSplitBlockLanes; ++lane) {
    std::byte* const word = at + static_cast<std::size_t>(lane) * sizeof(std::uint32_t);
    const auto before = LoadUnaligned<std::uint32_t>(word);
    const std::uint32_t bit = SplitBlockBit(hash, lane);
    added += (before & bit) == 0 ? 1 : 0;
    StoreUnaligned(word, before | bit);
  }
  return added;
}

#ifdef TIDEPOOL_MATCH_X86
[[gnu::target("avx2")]] inline __m256i BitsAvx2(std::uint64_t hash) {
  const __m256i salts =
      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kSplitBlockSalts.data()));
  const __m256i products = _mm256_mullo_epi32(_mm256_set1_epi32(static_cast<int>(hash)), salts);
  return _mm256_sllv_epi32(_mm256_set1_epi32(1), _mm256_srli_epi32(products, 27));
}

// Every processor with AVX2 has popcnt.
[[gnu::target("avx2,popcnt")]] inline unsigned InsertAvx2(std::byte* at, std::uint64_t hash) {
  auto* const lanes = reinterpret_cast<__m256i*>(at);
  const __m256i bits = BitsAvx2(hash);
  const __m256i before = _mm256_load_si256(lanes);
  const __m256i unset = _mm256_cmpeq_epi32(_mm256_and_si256(before, bits), _mm256_setzero_si256());
  _mm256_store_si256(lanes, _mm256_or_si256(before, bits));
  return static_cast<unsigned>(
      __builtin_popcount(static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(unset)))));
}

[[gnu::target("avx2")]] inline bool ContainsAvx2(const std::byte* at, std::uint64_t hash) {
  return _mm256_testc_si256(_mm256_load_si256(reinterpret_cast<const __m256i*>(at)),
                            BitsAvx2(hash)) != 0;
}

[[gnu::target("avx2,popcnt")]] inline std::uint64_t InsertManyAvx2(
    std::span<std::byte* const> split_blocks, const std::uint64_t* hashes, bool* is_new) {
  std::uint64_t added = 0;
  for (std::size_t i = 0; i < split_blocks.size(); ++i) {
    const unsigned bits = InsertAvx2(split_blocks[i], hashes[i]);
    added += bits;
    is_new[i] = bits != 0;
  }
  return added;
}

[[gnu::target("avx2")]] inline void ContainsManyAvx2(std::span<const std::byte* const> split_blocks,
                                                     const std::uint64_t* hashes, bool* found) {
  for (std::size_t i = 0; i < split_blocks.size(); ++i) {
    found[i] = ContainsAvx2(split_blocks[i], hashes[i]);
  }
}
#endif

inline unsigned Insert(std::byte* at, std::uint64_t hash) {
#ifdef TIDEPOOL_MATCH_X86
  if (g_match_level >= MatchLevel::kAvx2) return InsertAvx2(at, hash);
#endif
  return InsertPortable(at, hash);
}

inline bool Contains(const std::byte* at, std::uint64_t hash) {
#ifdef TIDEPOOL_MATCH_X86
  if (g_match_level >= MatchLevel::kAvx2) return ContainsAvx2(at, hash);
#endif
  return SplitBlockContains(at, hash);
}

// Inserts many values in a function of one instruction set: calls from outside cannot be inlined
// and cost a third of the time when the memory is at hand.
inline std::uint64_t InsertMany(std::span<std::byte* const> split_blocks,
                                const std::uint64_t* hashes, bool* is_new) {
#ifdef TIDEPOOL_MATCH_X86
  if (g_match_level >= MatchLevel::kAvx2) return InsertManyAvx2(split_blocks, hashes, is_new);
#endif
  std::uint64_t added = 0;
  for (std::size_t i = 0; i < split_blocks.size(); ++i) {
    const unsigned bits = InsertPortable(split_blocks[i], hashes[i]);
    added += bits;
    is_new[i] = bits != 0;
  }
  return added;
}

inline void ContainsMany(std::span<const std::byte* const> split_blocks,
                         const std::uint64_t* hashes, bool* found) {
#ifdef TIDEPOOL_MATCH_X86
  if (g_match_level >= MatchLevel::kAvx2) return ContainsManyAvx2(split_blocks, hashes, found);
#endif
  for (std::size_t i = 0; i < split_blocks.size(); ++i) {
    found[i] = SplitBlockContains(split_blocks[i], hashes[i]);
  }
}

}  // namespace tidepool::storage::split_block
