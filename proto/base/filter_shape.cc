// Sizes and estimates of Bloom filters; the formulas stand in the header.
#include "proto/base/filter_shape.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <string>

#include "proto/base/check.h"

namespace tidepool {
namespace {

// "3.6e-05": std::to_string would say 0.000036, and 0.000000 of less.
std::string RateText(double rate) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g", rate);
  return text.data();
}

// Returns the load at which the rate is `rate`. The rate grows with the load, so the interval is
// halved down to the resolution of doubles.
double LoadOfRate(double rate) {
  double low = 0;
  double high = static_cast<double>(kSplitBlockBits);  // A rate of 0.997.
  for (int step = 0; step < 100; ++step) {
    const double middle = (low + high) / 2;
    (FalsePositiveRateAt(middle) < rate ? low : high) = middle;
  }
  return low;
}

std::uint64_t RoundedUpBytes(std::uint64_t bytes) {
  if (bytes > limits::kFilterBlockBytes) return AlignUp(bytes, limits::kFilterBlockBytes);
  return std::max<std::uint64_t>(std::bit_ceil(bytes), limits::kFilterBytesMin);
}

}  // namespace

double FalsePositiveRateAt(double load) {
  constexpr std::array<double, kSplitBlockLanes + 1> kBinomials = {1,   -8, 28, -56, 70,
                                                                   -56, 28, -8, 1};
  double rate = 0;
  double unset = 1;  // (31/32)^j
  for (const double binomial : kBinomials) {
    rate += binomial * std::exp(-load * (1 - unset));
    unset *= 31.0 / 32.0;
  }
  return std::clamp(rate, 0.0, 1.0);
}

Result<FilterShape> ShapeOfFilter(std::uint64_t expected_items, double false_positive_rate,
                                  std::uint32_t partitions) {
  TP_CHECK(partitions > 0);
  if (expected_items == 0) {
    return Status(StatusCode::kInvalidArgument, "a Bloom filter for 0 expected items has no size",
                  "give expected_items, the number of distinct values to come");
  }
  // The form of the condition also refuses a rate that is NaN.
  if (!(false_positive_rate >= limits::kFilterRateMin &&
        false_positive_rate <= limits::kFilterRateMax)) {
    return Status(StatusCode::kInvalidArgument,
                  "a false-positive rate of " + RateText(false_positive_rate) + " is out of range",
                  "give one from " + RateText(limits::kFilterRateMin) + " to " +
                      RateText(limits::kFilterRateMax) + ", such as 0.01");
  }
  const double load = LoadOfRate(false_positive_rate);
  const double split_blocks =
      std::ceil(static_cast<double>(expected_items) / static_cast<double>(partitions) / load);
  if (split_blocks > static_cast<double>(limits::kFilterBytesMax / kSplitBlockBytes)) {
    return Status(StatusCode::kInvalidArgument,
                  "a Bloom filter for " + std::to_string(expected_items) +
                      " items with a rate of " + RateText(false_positive_rate) + " takes " +
                      std::to_string(static_cast<std::uint64_t>(std::ceil(
                          split_blocks * static_cast<double>(kSplitBlockBytes) / (1ull << 30)))) +
                      " GiB in each of " + std::to_string(partitions) + " partitions; " +
                      std::to_string(limits::kFilterBytesMax >> 30) + " GiB is the largest",
                  "expect fewer items, accept a higher rate, or take more partitions");
  }
  const auto count = std::max<std::uint64_t>(static_cast<std::uint64_t>(split_blocks), 1);
  return FilterShape{RoundedUpBytes(count * kSplitBlockBytes) / kSplitBlockBytes};
}

bool IsFilterBytes(std::uint64_t bytes) {
  return bytes != 0 && bytes <= limits::kFilterBytesMax && RoundedUpBytes(bytes) == bytes;
}

double EstimatedItems(FilterShape shape, std::uint64_t bits_set) {
  TP_CHECK(shape.split_blocks > 0);
  TP_CHECK(bits_set <= shape.bits());
  const auto bits = static_cast<double>(shape.bits());
  const double unset = std::max(bits - static_cast<double>(bits_set), 1.0);
  // log1p keeps its digits where ln(1 - x) of a tiny x would have lost them.
  return std::log(unset / bits) /
         std::log1p(-1.0 / (32.0 * static_cast<double>(shape.split_blocks)));
}

std::uint64_t BitsSetBy(FilterShape shape, double items) {
  TP_CHECK(shape.split_blocks > 0);
  const double unset =
      std::exp(items * std::log1p(-1.0 / (32.0 * static_cast<double>(shape.split_blocks))));
  return static_cast<std::uint64_t>(static_cast<double>(shape.bits()) * (1 - unset));
}

double ItemsAtRate(FilterShape shape, double false_positive_rate) {
  return LoadOfRate(false_positive_rate) * static_cast<double>(shape.split_blocks);
}

double EstimatedFalsePositiveRate(FilterShape shape, std::uint64_t bits_set) {
  if (bits_set == shape.bits()) return 1;
  return FalsePositiveRateAt(EstimatedItems(shape, bits_set) /
                             static_cast<double>(shape.split_blocks));
}

}  // namespace tidepool
