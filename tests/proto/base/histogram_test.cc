#include "proto/base/histogram.h"

#include <catch2/catch.hpp>

namespace tidepool {
namespace {

TEST_CASE("AnEmptyHistogramAnswersZero") {
  const Histogram empty;
  CHECK(empty.Quantile(0.5) == 0);
  CHECK(empty.min() == 0);
  CHECK(empty.mean() == 0);
}

TEST_CASE("QuantilesAreWithinAThirtySecond") {
  Histogram histogram;
  for (std::uint64_t i = 1; i <= 1'000'000; ++i) histogram.Record(i);
  for (const double quantile : {0.01, 0.5, 0.9, 0.99, 0.999}) {
    const auto exact = quantile * 1e6;
    const auto found = static_cast<double>(histogram.Quantile(quantile));
    CHECK(found >= exact * (1 - 1e-9));
    CHECK(found <= exact * (1 + 1.0 / 32));
  }
  CHECK(histogram.Quantile(1) == 1'000'000);
  CHECK(histogram.max() == 1'000'000);
}

TEST_CASE("TheLargestValueIsRecorded") {
  Histogram histogram;
  histogram.Record(~0ull);
  CHECK(histogram.Quantile(0.5) == ~0ull);
}

TEST_CASE("MergedHistogramsCountBoth") {
  Histogram low;
  Histogram high;
  low.Record(1);
  high.Record(1000);
  low.Merge(high);
  CHECK(low.count() == 2);
  CHECK(low.min() == 1);
  CHECK(low.max() == 1000);
}

}  // namespace
}  // namespace tidepool
