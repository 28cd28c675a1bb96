// Descriptions of prefilters: stored descriptions are loaded, and no other bytes.
#include "proto/wire/prefilter_ops.h"

#include <array>
#include <catch2/catch.hpp>
#include <limits>

namespace tidepool::wire {
namespace {

using Stored = std::array<std::byte, kPrefilterSummaryBytes>;

Stored Store(const PrefilterSummary& summary) {
  Stored bytes;
  StorePrefilterSummary(summary, bytes.data());
  return bytes;
}

TEST_CASE("ADescriptionOfAPrefilterIsLoadedAsItWasStored") {
  PrefilterSummary summary;
  summary.generation = 0x123456789abcdef0;
  summary.shape.split_blocks = 2048;
  summary.bytes = 131'072;
  summary.bits_set = 77;
  summary.keys = 9;
  summary.false_positive_rate = 0.25;
  const auto loaded = LoadPrefilterSummary(Store(summary));
  REQUIRE(loaded.ok());
  CHECK(loaded->generation == summary.generation);
  CHECK(loaded->shape == summary.shape);
  CHECK(loaded->bytes == summary.bytes);
  CHECK(loaded->bits_set == summary.bits_set);
  CHECK(loaded->keys == summary.keys);
  CHECK(loaded->false_positive_rate == 0.25);
  CHECK(LoadPrefilterSummary(Store({})).ok());  // There is no prefilter.
}

TEST_CASE("WhatNoPrefilterCanBeIsRefused") {
  const Stored good = Store({});
  CHECK_FALSE(LoadPrefilterSummary(Bytes(good).first(47)).ok());
  PrefilterSummary summary;
  for (const std::uint64_t split_blocks : {1ull, 129ull, ~0ull, 1ull << 59}) {
    summary.shape.split_blocks = split_blocks;
    CHECK_FALSE(LoadPrefilterSummary(Store(summary)).ok());
  }
  summary.shape.split_blocks = 0;
  for (const double rate : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    summary.false_positive_rate = rate;
    CHECK_FALSE(LoadPrefilterSummary(Store(summary)).ok());
  }
}

}  // namespace
}  // namespace tidepool::wire
