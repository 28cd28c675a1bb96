// Contents of answers to operations on filters.
//
//   daemon/ops/bloom_ops => BloomDescribe's value => client/api/bytes_bloom
#pragma once

#include <cstdint>

#include "proto/base/bytes.h"
#include "proto/base/filter_shape.h"
#include "proto/base/result.h"

namespace tidepool::wire {

// Summary of a partition's filter.
struct FilterSummary {
  FilterShape shape;
  std::uint64_t bits_set = 0;
};

// {split blocks:8, bits set:8}
inline constexpr std::size_t kFilterSummaryBytes = 16;

inline void StoreFilterSummary(const FilterSummary& from, std::byte* to) {
  StoreUnaligned(to, from.shape.split_blocks);
  StoreUnaligned(to + sizeof(std::uint64_t), from.bits_set);
}

// Returns: kInvalidArgument (no summary, or of a filter that cannot exist).
inline Result<FilterSummary> LoadFilterSummary(Bytes from) {
  const Status malformed(StatusCode::kInvalidArgument, "malformed description of a filter");
  if (from.size() != kFilterSummaryBytes) return malformed;
  FilterSummary summary;
  summary.shape.split_blocks = LoadUnaligned<std::uint64_t>(from.data());
  summary.bits_set = LoadUnaligned<std::uint64_t>(from.data() + sizeof(std::uint64_t));
  // Bounds first: the product that is looked at next must not overflow.
  const std::uint64_t count_max = limits::kFilterBytesMax / kSplitBlockBytes;
  if (summary.shape.split_blocks > count_max || !IsFilterBytes(summary.shape.bytes()) ||
      summary.bits_set > summary.shape.bits()) {
    return malformed;
  }
  return summary;
}

}  // namespace tidepool::wire
