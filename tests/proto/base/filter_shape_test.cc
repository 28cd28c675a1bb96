// Sizes and estimates of Bloom filters against simulation and against each other.
#include "proto/base/filter_shape.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

namespace tidepool {
namespace {

// The sum of the papers, term by term.
double RateByPoissonSum(double load) {
  double probability = std::exp(-load);
  double rate = 0;
  for (int i = 0; i < load + 60 * std::sqrt(load) + 100; ++i) {
    rate += probability * std::pow(1 - std::pow(31.0 / 32.0, i), 8);
    probability *= load / (i + 1);
  }
  return rate;
}

TEST_CASE("TheClosedFormOfTheRateIsThePoissonSum") {
  for (const double load : {0.0, 0.5, 2.0, 4.0, 10.0, 21.3, 32.0, 60.0, 100.0, 200.0}) {
    INFO("load " << load);
    REQUIRE(FalsePositiveRateAt(load) == Approx(RateByPoissonSum(load)).margin(1e-13));
  }
}

TEST_CASE("TheRateAtWholeBitsPerValueIsAsPublished") {
  // Measured elsewhere with 500 k values: 8 bits 3.3 %, 10 1.28 %, 12 0.55 %, 16 0.14 %, 20 0.04 %.
  REQUIRE(FalsePositiveRateAt(256.0 / 8) == Approx(0.0332).epsilon(0.01));
  REQUIRE(FalsePositiveRateAt(256.0 / 10) == Approx(0.01265).epsilon(0.01));
  REQUIRE(FalsePositiveRateAt(256.0 / 12) == Approx(0.00542).epsilon(0.01));
  REQUIRE(FalsePositiveRateAt(256.0 / 16) == Approx(0.00132).epsilon(0.01));
  REQUIRE(FalsePositiveRateAt(256.0 / 20) == Approx(0.00042).epsilon(0.01));
}

TEST_CASE("AShapeKeepsItsRateAndIsNotLargerThanItMust") {
  for (const double rate : {1e-6, 1e-4, 0.001, 0.01, 0.1, 0.5}) {
    for (const std::uint64_t items : {1ull, 100ull, 5'000ull, 1'000'000ull, 50'000'000ull}) {
      for (const std::uint32_t partitions : {1u, 8u, 4096u}) {
        INFO("items " << items << " rate " << rate << " partitions " << partitions);
        const FilterShape shape = ShapeOfFilter(items, rate, partitions).value();
        REQUIRE(IsFilterBytes(shape.bytes()));
        const double each = static_cast<double>(items) / partitions;
        REQUIRE(FalsePositiveRateAt(each / static_cast<double>(shape.split_blocks)) <=
                rate * 1.000001);
        // The next smaller filter would err more often.
        const std::uint64_t bytes = shape.bytes();
        if (bytes == limits::kFilterBytesMin) continue;
        const std::uint64_t smaller =
            bytes > limits::kFilterBlockBytes ? bytes - limits::kFilterBlockBytes : bytes / 2;
        REQUIRE(IsFilterBytes(smaller));
        REQUIRE(FalsePositiveRateAt(each * kSplitBlockBytes / static_cast<double>(smaller)) > rate);
      }
    }
  }
}

TEST_CASE("TwelveBitsPerValueAreWhatHalfAPercentTakes") {
  const FilterShape shape = ShapeOfFilter(50'000'000, 0.00542).value();
  REQUIRE(static_cast<double>(shape.bits()) / 50e6 == Approx(12).epsilon(0.005));
}

TEST_CASE("ShapesThatCannotBeAreRefusedWithAReason") {
  const auto refused = [](std::uint64_t items, double rate) {
    const Result<FilterShape> shape = ShapeOfFilter(items, rate);
    REQUIRE(shape.code() == StatusCode::kInvalidArgument);
    REQUIRE_FALSE(shape.status().remedy().empty());
    return std::string(shape.status().what());
  };
  REQUIRE(refused(0, 0.01).find("0 expected items") != std::string::npos);
  for (const double rate : {0.0, -1.0, 1.0, 0.51, 9e-7, std::numeric_limits<double>::quiet_NaN(),
                            std::numeric_limits<double>::infinity()}) {
    REQUIRE(refused(1000, rate).find("out of range") != std::string::npos);
  }
  REQUIRE(refused(1ull << 40, 0.01).find("GiB is the largest") != std::string::npos);
  REQUIRE(refused(std::numeric_limits<std::uint64_t>::max(), 1e-6).find("largest") !=
          std::string::npos);
  // An equal filter in more partitions.
  REQUIRE(ShapeOfFilter(1ull << 40, 0.01, 4096).ok());
}

TEST_CASE("OnlySizesThatMemoryIsCutIntoAreFilters") {
  for (const std::uint64_t bytes :
       {4096ull, 8192ull, 65536ull, 131072ull, 196608ull, 64ull << 30}) {
    REQUIRE(IsFilterBytes(bytes));
  }
  for (const std::uint64_t bytes :
       {0ull, 32ull, 2048ull, 12288ull, 65568ull, (64ull << 30) + 65536, ~0ull}) {
    REQUIRE_FALSE(IsFilterBytes(bytes));
  }
}

TEST_CASE("TheEstimateUndoesTheExpectedNumberOfBits") {
  const FilterShape shape = ShapeOfFilter(1'000'000, 0.01).value();
  REQUIRE(EstimatedItems(shape, 0) == 0);
  REQUIRE(EstimatedFalsePositiveRate(shape, 0) == 0);
  for (const double items : {1.0, 1000.0, 1e6, 1e7}) {
    const double unset = std::exp(items * std::log1p(-1.0 / (32.0 * double(shape.split_blocks))));
    const auto set = static_cast<std::uint64_t>(double(shape.bits()) * (1 - unset) + 0.5);
    REQUIRE(EstimatedItems(shape, set) == Approx(items).epsilon(0.01).margin(0.2));
  }
}

TEST_CASE("AFullFilterHasAFiniteEstimateAndErrsAlways") {
  const FilterShape shape{128};
  const double items = EstimatedItems(shape, shape.bits());
  REQUIRE(std::isfinite(items));
  REQUIRE(items == EstimatedItems(shape, shape.bits() - 1));
  REQUIRE(EstimatedFalsePositiveRate(shape, shape.bits()) == 1);
  REQUIRE(EstimatedFalsePositiveRate(shape, shape.bits() - 1) < 1);
}

TEST_CASE("BitsAndItemsAreEachOthersInverse") {
  for (const std::uint64_t split_blocks : {128ull, 2048ull, 100'000ull}) {
    const FilterShape shape{split_blocks};
    for (const double rate : {1e-5, 0.01, 0.2}) {
      const double items = ItemsAtRate(shape, rate);
      const std::uint64_t bits = BitsSetBy(shape, items);
      REQUIRE(EstimatedItems(shape, bits) == Approx(items).epsilon(0.001));
      REQUIRE(EstimatedFalsePositiveRate(shape, bits) == Approx(rate).epsilon(0.01));
    }
    REQUIRE(BitsSetBy(shape, 0) == 0);
  }
}

}  // namespace
}  // namespace tidepool
