// Latency histogram with a bounded relative error of 1/32 (after HdrHistogram's log-linear buckets,
// http://hdrhistogram.org; Debian 12 has no package of it).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tidepool {

// Values are unit-free unsigned integers (a histogram has a single unit, named by its name). Not
// thread-safe: each thread has its own, and the reader merges them. 15 KiB, no allocation.
class Histogram {
 public:
  void Record(std::uint64_t value) {
    ++counts_[BucketOf(value)];
    ++count_;
    sum_ += value;
    if (value > max_) max_ = value;
    if (value < min_) min_ = value;
  }
  void Merge(const Histogram& other);
  void Clear() { *this = Histogram(); }

  std::uint64_t count() const { return count_; }
  std::uint64_t min() const { return count_ == 0 ? 0 : min_; }
  std::uint64_t max() const { return max_; }
  double mean() const {
    return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_);
  }
  // The smallest recorded bucket's upper bound below which `quantile` (0..1) of the values lie; 0
  // when nothing was recorded.
  std::uint64_t Quantile(double quantile) const;

 private:
  static constexpr int kSubBits = 5;
  static constexpr std::size_t kBuckets = (64 - kSubBits + 1) << kSubBits;

  static std::size_t BucketOf(std::uint64_t value) {
    if (value < (1u << kSubBits)) return value;
    const int log2 = 63 - __builtin_clzll(value);
    const int shift = log2 - kSubBits;
    return (static_cast<std::size_t>(shift + 1) << kSubBits) +
           static_cast<std::size_t>((value >> shift) & ((1u << kSubBits) - 1));
  }
  static std::uint64_t UpperBoundOf(std::size_t bucket);

  std::array<std::uint64_t, kBuckets> counts_{};
  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t min_ = ~0ull;
  std::uint64_t max_ = 0;
};

}  // namespace tidepool
