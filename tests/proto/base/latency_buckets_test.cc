#include "proto/base/latency_buckets.h"

#include <catch2/catch.hpp>

namespace tidepool {
namespace {

TEST_CASE("EachLatencyIsInTheBucketWhoseBoundsItIsBetween") {
  for (std::uint64_t ns : {0ull, 1ull, 1023ull, 1024ull, 1535ull, 1536ull, 2047ull, 2048ull,
                           999'999ull, 1'000'000ull, (1ull << 34) - 1, 1ull << 34, ~0ull}) {
    LatencyBuckets latency;
    latency.Record(ns);
    std::size_t bucket = 0;
    while (latency.count(bucket) == 0) ++bucket;
    INFO(ns << " in " << bucket);
    CHECK((ns < LatencyBuckets::BoundNs(bucket) || ns == ~0ull));
    if (bucket > 0) CHECK(ns >= LatencyBuckets::BoundNs(bucket - 1));
  }
}

TEST_CASE("TheBoundsOfLatenciesGrow") {
  for (std::size_t i = 1; i < LatencyBuckets::kBuckets; ++i) {
    CHECK(LatencyBuckets::BoundNs(i - 1) < LatencyBuckets::BoundNs(i));
  }
  CHECK(LatencyBuckets::BoundNs(0) == 1024);
  CHECK(LatencyBuckets::BoundNs(1) == 1536);
  CHECK(LatencyBuckets::BoundNs(2) == 2048);
  CHECK(LatencyBuckets::BoundNs(LatencyBuckets::kBuckets - 2) == 1ull << 34);
}

TEST_CASE("QuantilesOfLatenciesAreWithinAQuarter") {
  LatencyBuckets latency;
  for (std::uint64_t us = 1; us <= 100'000; ++us) latency.Record(us * 1'000);
  for (const double quantile : {0.1, 0.5, 0.9, 0.99}) {
    const double exact = quantile * 1e8;
    CHECK(static_cast<double>(latency.QuantileNs(quantile)) == Approx(exact).epsilon(0.25));
  }
  CHECK(latency.count() == 100'000);
  CHECK(latency.sum_ns() == 100'000ull * 100'001 / 2 * 1'000);
}

TEST_CASE("NoLatenciesHaveTheQuantileZero") {
  CHECK(LatencyBuckets().QuantileNs(0.99) == 0);
  CHECK(LatencyBuckets().count() == 0);
}

TEST_CASE("LatenciesSinceAnEarlierLookAreThoseBetween") {
  LatencyBuckets latency;
  latency.Record(5'000);
  const LatencyBuckets earlier = latency;
  latency.Record(5'000);
  latency.Record(50'000);
  const LatencyBuckets since = latency.Since(earlier);
  CHECK(since.count() == 2);
  CHECK(since.sum_ns() == 55'000);
  LatencyBuckets whole = earlier;
  whole.Merge(since);
  CHECK(whole.count() == latency.count());
  // After a restart of the daemon: zero, rather than 2^64.
  CHECK(earlier.Since(latency).count() == 0);
}

TEST_CASE("LatencyBucketsOfAnotherVersionAreLeftOut") {
  LatencyBuckets latency;
  latency.Set(0, 3);
  latency.Set(LatencyBuckets::kBuckets, 7);
  CHECK(latency.count() == 3);
}

}  // namespace
}  // namespace tidepool
