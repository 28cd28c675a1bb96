#include "proto/base/histogram.h"

#include <algorithm>

namespace tidepool {

void Histogram::Merge(const Histogram& other) {
  for (std::size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

std::uint64_t Histogram::UpperBoundOf(std::size_t bucket) {
  if (bucket < (1u << kSubBits)) return bucket;
  const auto shift = static_cast<int>(bucket >> kSubBits) - 1;
  const std::uint64_t base = (bucket & ((1u << kSubBits) - 1)) | (1ull << kSubBits);
  return (base << shift) + ((1ull << shift) - 1);
}

std::uint64_t Histogram::Quantile(double quantile) const {
  if (count_ == 0) return 0;
  const double clamped = std::clamp(quantile, 0.0, 1.0);
  auto rank = static_cast<std::uint64_t>(clamped * static_cast<double>(count_));
  if (rank == 0) rank = 1;
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += counts_[i];
    if (seen >= rank) return std::min(UpperBoundOf(i), max_);
  }
  return max_;
}

}  // namespace tidepool
