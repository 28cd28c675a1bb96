// Contents of answers to operations on prefilters.
//
//   daemon/ops/prefilter_ops => PrefilterDescribe's value => client/cache/absent_copy, services
//
// A download is a PrefilterDescribe and PrefilterReads with its generation. While the partition has
// this generation, bits are only set, so the pieces fit each other. A read with another generation
// is answered with kAborted: begin again.
#pragma once

#include <bit>
#include <cstdint>

#include "proto/base/bytes.h"
#include "proto/base/filter_shape.h"
#include "proto/base/result.h"

namespace tidepool::wire {

// Summary of a partition's prefilter.
struct PrefilterSummary {
  std::uint64_t generation = 0;  // Unique for each filter of this partition, across restarts.
  FilterShape shape;             // Filter to download; empty shape: no filter.
  std::uint64_t bytes = 0;       // Memory, with a filter that is being made or freed.
  std::uint64_t bits_set = 0;
  std::uint64_t keys = 0;  // Estimated.
  double false_positive_rate = 0;
};

// Six words, in the order of the fields.
inline constexpr std::size_t kPrefilterSummaryBytes = 48;

inline void StorePrefilterSummary(const PrefilterSummary& from, std::byte* to) {
  for (const std::uint64_t word :
       {from.generation, from.shape.split_blocks, from.bytes, from.bits_set, from.keys,
        std::bit_cast<std::uint64_t>(from.false_positive_rate)}) {
    StoreUnaligned(to, word);
    to += sizeof word;
  }
}

// Returns: kInvalidArgument (no summary, or of a filter that cannot exist).
inline Result<PrefilterSummary> LoadPrefilterSummary(Bytes from) {
  const Status malformed(StatusCode::kInvalidArgument, "malformed description of a prefilter");
  if (from.size() != kPrefilterSummaryBytes) return malformed;
  const auto word = [&](std::size_t i) {
    return LoadUnaligned<std::uint64_t>(from.data() + i * sizeof(std::uint64_t));
  };
  PrefilterSummary summary;
  summary.generation = word(0);
  summary.shape.split_blocks = word(1);
  summary.bytes = word(2);
  summary.bits_set = word(3);
  summary.keys = word(4);
  summary.false_positive_rate = std::bit_cast<double>(word(5));
  // Bounds first: the product that is looked at next must not overflow.
  if (summary.shape.split_blocks > limits::kFilterBytesMax / kSplitBlockBytes) return malformed;
  if (summary.shape.split_blocks != 0 && !IsFilterBytes(summary.shape.bytes())) return malformed;
  if (!(summary.false_positive_rate >= 0 && summary.false_positive_rate <= 1)) return malformed;
  return summary;
}

}  // namespace tidepool::wire
