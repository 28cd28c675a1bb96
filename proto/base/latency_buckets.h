// Latencies in few buckets: small enough for each namespace and core, for every status and for
// scrapes. Two buckets per factor of two, so a quantile is right to a quarter of its value.
//
// proto/base/histogram has finer buckets, and takes 15 KiB.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tidepool {

// Not thread-safe: each thread has its own, and the reader merges them. 400 bytes, no allocation.
class LatencyBuckets {
 public:
  // From 1 us to 17 s, and a bucket for larger values.
  static constexpr int kLeastLog2 = 10;
  static constexpr int kMostLog2 = 34;
  static constexpr std::size_t kBuckets = 2 * (kMostLog2 - kLeastLog2) + 2;

  void Record(std::uint64_t ns) {
    ++counts_[BucketOf(ns)];
    sum_ns_ += ns;
  }
  void Merge(const LatencyBuckets& other) {
    for (std::size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
    sum_ns_ += other.sum_ns_;
  }
  // Returns the counts since `earlier`, an earlier state of this source.
  LatencyBuckets Since(const LatencyBuckets& earlier) const {
    LatencyBuckets since;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      since.counts_[i] = counts_[i] - std::min(counts_[i], earlier.counts_[i]);
    }
    since.sum_ns_ = sum_ns_ - std::min(sum_ns_, earlier.sum_ns_);
    return since;
  }

  std::uint64_t count() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t each : counts_) sum += each;
    return sum;
  }
  std::uint64_t count(std::size_t bucket) const { return counts_[bucket]; }
  std::uint64_t sum_ns() const { return sum_ns_; }
  // Sets a count from the outside; ignores buckets beyond the last.
  void Set(std::size_t bucket, std::uint64_t count) {
    if (bucket < kBuckets) counts_[bucket] = count;
  }
  void SetSumNs(std::uint64_t ns) { sum_ns_ = ns; }

  // Returns the upper bound of values in this and earlier buckets; UINT64_MAX for the last bucket.
  static constexpr std::uint64_t BoundNs(std::size_t bucket) {
    if (bucket + 1 >= kBuckets) return UINT64_MAX;
    const std::uint64_t whole = 1ull << (kLeastLog2 + bucket / 2);
    return bucket % 2 == 0 ? whole : whole + whole / 2;
  }

  // Interpolates between the bounds of its bucket by rank; 0 without values.
  std::uint64_t QuantileNs(double quantile) const {
    const std::uint64_t all = count();
    if (all == 0) return 0;
    const double rank = std::clamp(quantile, 0.0, 1.0) * static_cast<double>(all);
    double seen = 0;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      const auto here = static_cast<double>(counts_[i]);
      if (here == 0 || seen + here < rank) {
        seen += here;
        continue;
      }
      const std::uint64_t from = i == 0 ? 0 : BoundNs(i - 1);
      if (i + 1 == kBuckets) return from;
      const auto width = static_cast<double>(BoundNs(i) - from);
      return from + static_cast<std::uint64_t>(width * ((rank - seen) / here));
    }
    return BoundNs(kBuckets - 2);
  }

 private:
  static constexpr std::size_t BucketOf(std::uint64_t ns) {
    if (ns < (1ull << kLeastLog2)) return 0;
    const int log2 = 63 - std::countl_zero(ns);
    if (log2 >= kMostLog2) return kBuckets - 1;
    return 1 + static_cast<std::size_t>(2 * (log2 - kLeastLog2)) +
           static_cast<std::size_t>((ns >> (log2 - 1)) & 1);
  }

  std::array<std::uint64_t, kBuckets> counts_{};
  std::uint64_t sum_ns_ = 0;
};

}  // namespace tidepool
