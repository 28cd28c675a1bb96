#include "daemon/core/heap_cover.h"

#include <catch2/catch.hpp>
#include <memory>
#include <vector>

namespace tidepool::daemon {
namespace {

constexpr std::uint64_t kBlock = 64 * 1024;
constexpr std::uint64_t kBlocks = 16;

std::unique_ptr<storage::ArenaPool> MakePool() {
  storage::ArenaPoolOptions options;
  options.block_bytes = kBlock;
  options.memory_bytes = kBlocks * kBlock;
  options.arena_first_bytes = kBlocks * kBlock;
  options.arena_bytes = kBlocks * kBlock;
  auto pool = storage::ArenaPool::Create(options);
  REQUIRE(pool.ok());
  return *std::move(pool);
}

TEST_CASE("WhatIsFreeTakesNoMemoryFromRecords") {
  const auto pool = MakePool();
  HeapCover cover(*pool, 3 * kBlock);
  cover.Fit(3 * kBlock);
  CHECK(cover.bytes() == 3 * kBlock);
  CHECK(pool->BlocksAvailable() == kBlocks);
}

TEST_CASE("WhatIsBeyondItIsTakenFromRecordsAndGivenBack") {
  const auto pool = MakePool();
  {
    HeapCover cover(*pool, kBlock);
    cover.Fit(5 * kBlock - 1);
    CHECK(cover.bytes() == 5 * kBlock);
    CHECK(pool->BlocksAvailable() == kBlocks - 4);
    cover.Fit(2 * kBlock);
    CHECK(cover.bytes() == 3 * kBlock);  // A block more than needed stays.
    cover.Fit(3 * kBlock);
    CHECK(cover.bytes() == 3 * kBlock);
  }
  CHECK(pool->BlocksAvailable() == kBlocks);
}

TEST_CASE("WithoutMemoryNoMoreIsCoveredThanThereWas") {
  const auto pool = MakePool();
  std::vector<std::uint64_t> taken;
  for (std::uint64_t i = 0; i < kBlocks - 2; ++i) taken.push_back(pool->Allocate(false));
  HeapCover cover(*pool, 0);
  cover.Fit(kBlocks * kBlock);
  CHECK(cover.bytes() == 2 * kBlock);
  CHECK(pool->Allocate(false) == 0);
  for (const std::uint64_t block : taken) pool->Free(block, false);
  cover.Fit(4 * kBlock);
  CHECK(cover.bytes() == 4 * kBlock);
}

TEST_CASE("ANodesArenasLeaveRoomForTheRestOfTheDaemon") {
  constexpr std::uint64_t kMiB = 1 << 20;
  CHECK(HeapCover::OutsideBytes(64 * kMiB, 1, false) == 0);
  CHECK(HeapCover::OutsideBytes(256 * kMiB, 2, false) == 48 * kMiB);
  CHECK(HeapCover::OutsideBytes(1024 * kMiB, 2, false) == 48 * kMiB);
  CHECK(HeapCover::OutsideBytes(1024 * kMiB, 2, true) == 80 * kMiB);
  for (const std::uint64_t memory : {256 * kMiB, 4'096 * kMiB, 1'048'576 * kMiB}) {
    for (const std::uint32_t cores : {1u, 2u, 4u}) {
      const std::uint64_t outside = HeapCover::OutsideBytes(memory, cores, true);
      CHECK(outside >= HeapCover::FreeBytes(memory, cores) * cores);
      CHECK(outside <= memory / 5);
    }
  }
}

}  // namespace
}  // namespace tidepool::daemon
