// The pool: budget, promises, seals, touching ahead, and several cores at once.
#include "storage/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <cstring>
#include <set>
#include <thread>
#include <vector>

namespace tidepool::storage {
namespace {

constexpr std::uint64_t kBlock = 4096;

std::unique_ptr<ArenaPool> MakePool(std::uint64_t blocks, std::uint64_t first = 4,
                                    std::uint64_t largest = 16) {
  ArenaPoolOptions options;
  options.memory_bytes = blocks * kBlock;
  options.block_bytes = kBlock;
  options.arena_first_bytes = first * kBlock;
  options.arena_bytes = largest * kBlock;
  return ArenaPool::Create(options).value();
}

TEST_CASE("PoolHandsOutItsBudgetAndNoMore") {
  const auto pool = MakePool(50);
  std::set<std::uint64_t> blocks;
  while (const std::uint64_t block = pool->Allocate(false)) {
    REQUIRE(block % kBlock == 0);
    REQUIRE(blocks.insert(block).second);
    std::memset(pool->base() + block, 1, kBlock);
  }
  REQUIRE(blocks.size() == 50);
  REQUIRE_FALSE(blocks.contains(0));
  REQUIRE(pool->usage().available_bytes == 0);
  REQUIRE(pool->usage().mapped_bytes == 50 * kBlock);
}

TEST_CASE("FreedBlockIsHandedOutAgain") {
  const auto pool = MakePool(4);
  const std::uint64_t block = pool->Allocate(false);
  pool->Free(block, false);
  REQUIRE(pool->Allocate(false) == block);
}

TEST_CASE("ArenasDoubleUpToTheLargest") {
  const auto pool = MakePool(64);
  REQUIRE(pool->usage().mapped_bytes == 4 * kBlock);
  for (int i = 0; i < 5; ++i) REQUIRE(pool->Allocate(false) != 0);
  REQUIRE(pool->usage().mapped_bytes == 8 * kBlock);
  for (int i = 0; i < 60; ++i) pool->Allocate(false);
  REQUIRE(pool->usage().mapped_bytes == 64 * kBlock);
}

TEST_CASE("PromisedBlocksAreKeptFromOthers") {
  const auto pool = MakePool(10);
  REQUIRE(pool->Promise(3));
  int taken = 0;
  while (pool->Allocate(false) != 0) ++taken;
  REQUIRE(taken == 7);
  REQUIRE(pool->BlocksAvailable() == 0);
  REQUIRE(pool->Allocate(true) != 0);
  REQUIRE(pool->Allocate(true) != 0);
  REQUIRE(pool->Allocate(true) != 0);
  REQUIRE_FALSE(pool->Promise(1));
}

TEST_CASE("BlockFreedToThePromiseIsNotAvailableToOthers") {
  const auto pool = MakePool(2);
  REQUIRE(pool->Promise(1));
  const std::uint64_t promised = pool->Allocate(true);
  REQUIRE(pool->Allocate(false) != 0);
  pool->Free(promised, true);
  REQUIRE(pool->Allocate(false) == 0);
  REQUIRE(pool->Allocate(true) == promised);
}

TEST_CASE("OptionsThatDoNotFitAreRefused") {
  ArenaPoolOptions options;
  options.block_bytes = 3 * kBlock;
  REQUIRE(ArenaPool::Create(options).code() == StatusCode::kInvalidArgument);
  options = {};
  options.arena_first_bytes = options.block_bytes / 2;
  REQUIRE(ArenaPool::Create(options).code() == StatusCode::kInvalidArgument);
  options = {};
  options.memory_bytes = options.block_bytes - 1;
  REQUIRE(ArenaPool::Create(options).code() == StatusCode::kInvalidArgument);
}

TEST_CASE("DescriptorIsPublishedOnlyWhenTheArenaIsTouched") {
  const auto pool = MakePool(8, 8);
  const std::uint64_t block = pool->Allocate(false);
  REQUIRE(pool->Show(block).touched_bytes < pool->Show(block).bytes);
  const Clock& clock = Clock::Real();
  while (pool->PrepareSlice(clock, clock.MonotonicNs() + 1'000'000)) {
  }
  REQUIRE(pool->Show(block).touched_bytes == pool->Show(block).bytes);
  REQUIRE(pool->usage().touched_bytes == pool->usage().mapped_bytes);
}

TEST_CASE("TouchingLeavesContentsAlone") {
  const auto pool = MakePool(8, 8);
  const std::uint64_t block = pool->Allocate(false);
  std::memset(pool->base() + block, 0x5A, kBlock);
  const Clock& clock = Clock::Real();
  while (pool->PrepareSlice(clock, clock.MonotonicNs() + 1'000'000)) {
  }
  for (std::uint64_t i = 0; i < kBlock; ++i) REQUIRE(pool->base()[block + i] == std::byte{0x5A});
}

TEST_CASE("ArenaCannotBeResizedPunchedOrMappedWritable") {
  const auto pool = MakePool(8, 8);
  const std::uint64_t block = pool->Allocate(false);
  const Clock& clock = Clock::Real();
  while (pool->PrepareSlice(clock, clock.MonotonicNs() + 1'000'000)) {
  }
  const int descriptor = pool->Show(block).descriptor;
  REQUIRE(ftruncate(descriptor, 0) != 0);
  REQUIRE(fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kBlock) != 0);
  REQUIRE(mmap(nullptr, kBlock, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0) == MAP_FAILED);
  void* reader = mmap(nullptr, kBlock, PROT_READ, MAP_SHARED, descriptor, 0);
  REQUIRE(reader != MAP_FAILED);
  pool->base()[block] = std::byte{42};
  REQUIRE(*static_cast<const std::byte*>(reader) == std::byte{42});
  munmap(reader, kBlock);
}

// Blocks of the daemon's own size, so that huge pages are used where the kernel has them.
TEST_CASE("BackgroundThreadBacksMemoryAheadOfUse") {
  ArenaPoolOptions options;
  options.prepare_in_background = true;
  const auto pool = ArenaPool::Create(options).value();
  const Deadline deadline = Deadline::AfterMs(60'000);
  std::vector<std::uint64_t> blocks;
  while (const std::uint64_t block = pool->Allocate(false)) {
    for (std::uint64_t i = 0; i < options.block_bytes; i += kBlock) {
      REQUIRE(pool->base()[block + i] == std::byte{0});
      pool->base()[block + i] = std::byte(block / options.block_bytes);
    }
    blocks.push_back(block);
  }
  while (pool->usage().touched_bytes < pool->usage().mapped_bytes) {
    REQUIRE_FALSE(deadline.Passed());
    std::this_thread::yield();
  }
  for (const std::uint64_t block : blocks) {
    for (std::uint64_t i = 0; i < options.block_bytes; i += kBlock) {
      REQUIRE(pool->base()[block + i] == std::byte(block / options.block_bytes));
    }
    REQUIRE(pool->Show(block).touched_bytes == pool->Show(block).bytes);
  }
  REQUIRE(pool->usage().huge_bytes <= pool->usage().touched_bytes);
}

TEST_CASE("MemoryThatIsInUseIsTouchedWithoutHugePages") {
  const auto pool = ArenaPool::Create({}).value();
  const std::uint64_t first = pool->usage().mapped_bytes / pool->block_bytes();
  for (std::uint64_t i = 0; i < first; ++i) REQUIRE(pool->Allocate(false) != 0);
  const Clock& clock = Clock::Real();
  pool->PrepareSlice(clock, 0);
  REQUIRE(pool->usage().touched_bytes > 0);
  REQUIRE(pool->usage().huge_bytes == 0);
}

TEST_CASE("CoresShareThePoolFromTheirOwnThreads") {
  const auto pool = MakePool(256, 16, 64);
  std::vector<std::thread> cores;
  for (int core = 0; core < 4; ++core) {
    cores.emplace_back([&pool, core] {
      const Clock& clock = Clock::Real();
      std::vector<std::uint64_t> mine;
      for (int round = 0; round < 500; ++round) {
        if (const std::uint64_t block = pool->Allocate(false); block != 0) {
          std::memset(pool->base() + block, core, kBlock);
          mine.push_back(block);
        }
        if (round % 3 == 0 && !mine.empty()) {
          for (std::uint64_t i = 0; i < kBlock; i += 64) {
            if (pool->base()[mine.back() + i] != std::byte(core)) std::abort();
          }
          pool->Free(mine.back(), false);
          mine.pop_back();
        }
        if (round % 16 == 0) pool->PrepareSlice(clock, 0);
      }
      for (const std::uint64_t block : mine) pool->Free(block, false);
    });
  }
  for (std::thread& core : cores) core.join();
  REQUIRE(pool->usage().used_bytes == 0);
  REQUIRE(pool->BlocksAvailable() == 256);
}

}  // namespace
}  // namespace tidepool::storage
