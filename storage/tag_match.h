// Compares the tags of a chain of buckets: the inner loop of every operation.
//
// TagIndex::Find -> [FindInChain...]. x86-64's baseline (SSE2) compares a bucket in about 12
// instructions, AVX2 in 8, AVX-512 in 3; what the processor has is found out once at start. Other
// machines take the scalar loop.
#pragma once

#include <cstdint>

#include "storage/layout.h"
#include "storage/match_level.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define TIDEPOOL_MATCH_X86 1
#endif

namespace tidepool::storage {
namespace match {

// Each returns a mask with bit i set where word i of the bucket (0 is the header, cleared) has
// `tag`. Empty slots count as tag 0: the caller looks at the word.
inline unsigned Scalar(const Bucket& bucket, std::uint64_t tag) {
  unsigned mask = 0;
  for (int i = 0; i < kSlotsPerBucket; ++i) {
    mask |= static_cast<unsigned>(SlotTag(bucket.slots[i]) == tag) << (i + 1);
  }
  return mask;
}

#ifdef TIDEPOOL_MATCH_X86
inline unsigned Sse2(const Bucket& bucket, std::uint64_t tag) {
  const auto* words = reinterpret_cast<const __m128i*>(&bucket);
  // The high half of a slot is [tag:24 | 8 bits of location]; four of them fill a register.
  const auto high_halves = [](__m128i first, __m128i second) {
    return _mm_unpacklo_epi64(_mm_shuffle_epi32(first, _MM_SHUFFLE(3, 1, 3, 1)),
                              _mm_shuffle_epi32(second, _MM_SHUFFLE(3, 1, 3, 1)));
  };
  const __m128i low = high_halves(_mm_load_si128(words), _mm_load_si128(words + 1));
  const __m128i high = high_halves(_mm_load_si128(words + 2), _mm_load_si128(words + 3));
  const __m128i wanted = _mm_set1_epi32(static_cast<int>(tag));
  const __m128i equal_low = _mm_cmpeq_epi32(_mm_srli_epi32(low, 8), wanted);
  const __m128i equal_high = _mm_cmpeq_epi32(_mm_srli_epi32(high, 8), wanted);
  const __m128i packed = _mm_packs_epi32(equal_low, equal_high);
  return static_cast<unsigned>(_mm_movemask_epi8(_mm_packs_epi16(packed, packed))) & 0xFEu;
}

[[gnu::target("avx2")]] inline unsigned Avx2(const Bucket& bucket, std::uint64_t tag) {
  const auto* words = reinterpret_cast<const __m256i*>(&bucket);
  const __m256i wanted = _mm256_set1_epi64x(static_cast<long long>(tag));
  const __m256i low = _mm256_cmpeq_epi64(_mm256_srli_epi64(words[0], kLocationBits), wanted);
  const __m256i high = _mm256_cmpeq_epi64(_mm256_srli_epi64(words[1], kLocationBits), wanted);
  return (static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(low))) |
          static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(high))) << 4) &
         0xFEu;
}

[[gnu::target("avx512f")]] inline unsigned Avx512(const Bucket& bucket, std::uint64_t tag) {
  const __m512i words = _mm512_load_si512(&bucket);
  // Zero-masked: with the plain shift g++ 12 warns of its own header's uninitialised operand.
  return _mm512_cmpeq_epi64_mask(_mm512_maskz_srli_epi64(0xFF, words, kLocationBits),
                                 _mm512_set1_epi64(static_cast<long long>(tag))) &
         0xFEu;
}
#endif

// A step of every find: hands the candidates of `mask` to `accept`.
template <typename Accept>
[[gnu::always_inline]] inline std::uint64_t* TakeCandidate(Bucket* bucket, unsigned mask,
                                                           Accept& accept) {
  for (; mask != 0; mask &= mask - 1) {
    std::uint64_t* slot = &bucket->slots[__builtin_ctz(mask) - 1];
    if (*slot != 0 && accept(SlotLocation(*slot))) return slot;
  }
  return nullptr;
}

// The same loop for each instruction set: a function can inline another only if it is compiled for
// at least the same instructions. `base` is the address of node offset 0.
template <typename Accept>
inline std::uint64_t* FindScalar(Bucket* bucket, std::byte* base, std::uint64_t tag,
                                 Accept& accept) {
  for (;;) {
    if (std::uint64_t* slot = TakeCandidate(bucket, Scalar(*bucket, tag), accept)) return slot;
    const std::uint64_t link = bucket::Link(bucket->header);
    if (link == 0) return nullptr;
    bucket = reinterpret_cast<Bucket*>(base + link * sizeof(Bucket));
  }
}

#ifdef TIDEPOOL_MATCH_X86
template <typename Accept>
[[gnu::always_inline]] inline std::uint64_t* FindSse2(Bucket* bucket, std::byte* base,
                                                      std::uint64_t tag, Accept& accept) {
  for (;;) {
    if (std::uint64_t* slot = TakeCandidate(bucket, Sse2(*bucket, tag), accept)) return slot;
    const std::uint64_t link = bucket::Link(bucket->header);
    if (link == 0) return nullptr;
    bucket = reinterpret_cast<Bucket*>(base + link * sizeof(Bucket));
  }
}

template <typename Accept>
[[gnu::target("avx2")]] inline std::uint64_t* FindAvx2(Bucket* bucket, std::byte* base,
                                                       std::uint64_t tag, Accept& accept) {
  for (;;) {
    if (std::uint64_t* slot = TakeCandidate(bucket, Avx2(*bucket, tag), accept)) return slot;
    const std::uint64_t link = bucket::Link(bucket->header);
    if (link == 0) return nullptr;
    bucket = reinterpret_cast<Bucket*>(base + link * sizeof(Bucket));
  }
}

template <typename Accept>
[[gnu::target("avx512f")]] inline std::uint64_t* FindAvx512(Bucket* bucket, std::byte* base,
                                                            std::uint64_t tag, Accept& accept) {
  for (;;) {
    if (std::uint64_t* slot = TakeCandidate(bucket, Avx512(*bucket, tag), accept)) return slot;
    const std::uint64_t link = bucket::Link(bucket->header);
    if (link == 0) return nullptr;
    bucket = reinterpret_cast<Bucket*>(base + link * sizeof(Bucket));
  }
}
#endif

template <typename Accept>
[[gnu::always_inline]] inline std::uint64_t* FindInChain(Bucket* bucket, std::byte* base,
                                                         std::uint64_t tag, Accept& accept) {
#ifdef TIDEPOOL_MATCH_X86
  switch (g_match_level) {
    case MatchLevel::kAvx512:
      return FindAvx512(bucket, base, tag, accept);
    case MatchLevel::kAvx2:
      return FindAvx2(bucket, base, tag, accept);
    case MatchLevel::kSse2:
      return FindSse2(bucket, base, tag, accept);
    case MatchLevel::kScalar:
      break;
  }
#endif
  return FindScalar(bucket, base, tag, accept);
}

}  // namespace match
}  // namespace tidepool::storage
