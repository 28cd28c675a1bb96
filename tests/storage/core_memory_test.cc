// Chunks cut from blocks, and the reserve.
#include "storage/core_memory.h"

#include <catch2/catch.hpp>

#include <map>
#include <random>

#include "tests/storage/store_fixture.h"

namespace tidepool::storage {
namespace {

struct MemoryFixture {
  explicit MemoryFixture(std::uint64_t blocks, std::uint64_t reserve = 0) {
    ArenaPoolOptions options;
    options.block_bytes = 64 * 1024;
    options.memory_bytes = blocks * options.block_bytes;
    options.arena_first_bytes = 4 * options.block_bytes;
    pool = ArenaPool::Create(options).value();
    memory = std::make_unique<CoreMemory>(*pool, reserve);
  }
  std::unique_ptr<ArenaPool> pool;
  std::unique_ptr<CoreMemory> memory;
};

TEST_CASE("SmallChunksShareABlock") {
  MemoryFixture fixture(4);
  std::vector<std::uint64_t> chunks;
  for (int i = 0; i < 16; ++i) chunks.push_back(fixture.memory->AllocateChunk(4096));
  REQUIRE(fixture.memory->blocks_held() == 1);
  chunks.push_back(fixture.memory->AllocateChunk(4096));
  REQUIRE(fixture.memory->blocks_held() == 2);
  for (const std::uint64_t chunk : chunks) fixture.memory->FreeChunk(chunk, 4096);
  REQUIRE(fixture.memory->blocks_held() == 0);
}

TEST_CASE("FreedNeighboursBecomeOneLargeChunkAgain") {
  MemoryFixture fixture(1);
  std::vector<std::uint64_t> chunks;
  for (int i = 0; i < 16; ++i) chunks.push_back(fixture.memory->AllocateChunk(4096));
  REQUIRE(fixture.memory->AllocateChunk(4096) == 0);
  for (int i = 0; i < 8; ++i) fixture.memory->FreeChunk(chunks[static_cast<std::size_t>(i)], 4096);
  const std::uint64_t half = fixture.memory->AllocateChunk(32 * 1024);
  REQUIRE(half != 0);
  fixture.memory->FreeChunk(half, 32 * 1024);
  for (int i = 8; i < 16; ++i) fixture.memory->FreeChunk(chunks[static_cast<std::size_t>(i)], 4096);
}

TEST_CASE("RandomChunksNeverOverlap") {
  const std::uint64_t seed = TestSeed();
  INFO("TP_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  MemoryFixture fixture(40);
  std::map<std::uint64_t, std::uint64_t> chunks;  // Offset -> bytes.
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 2 == 0) {
      const std::uint64_t bytes = 4096ull << random() % 5;
      const std::uint64_t at = fixture.memory->AllocateChunk(bytes);
      if (at == 0) continue;
      REQUIRE(at % bytes == 0);
      const auto next = chunks.lower_bound(at);
      if (next != chunks.end()) REQUIRE(next->first >= at + bytes);
      if (next != chunks.begin()) REQUIRE(std::prev(next)->first + std::prev(next)->second <= at);
      chunks[at] = bytes;
    } else if (!chunks.empty()) {
      auto it = std::next(chunks.begin(), static_cast<std::ptrdiff_t>(random() % chunks.size()));
      fixture.memory->FreeChunk(it->first, it->second);
      chunks.erase(it);
    }
  }
  for (const auto& [at, bytes] : chunks) fixture.memory->FreeChunk(at, bytes);
  REQUIRE(fixture.memory->blocks_held() == 0);
}

TEST_CASE("ReserveIsForTheReserveClassOnlyAndIsMadeWholeFirst") {
  MemoryFixture fixture(6, 2);
  std::vector<std::uint64_t> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(fixture.memory->AllocateBlock(MemoryClass::kUser));
  REQUIRE(fixture.memory->AllocateBlock(MemoryClass::kUser) == 0);
  blocks.push_back(fixture.memory->AllocateBlock(MemoryClass::kReserve));
  blocks.push_back(fixture.memory->AllocateBlock(MemoryClass::kReserve));
  REQUIRE(blocks.back() != 0);
  REQUIRE(fixture.memory->AllocateBlock(MemoryClass::kReserve) == 0);
  for (int i = 0; i < 2; ++i) {
    fixture.memory->FreeBlock(blocks.back());
    blocks.pop_back();
    REQUIRE(fixture.memory->AllocateBlock(MemoryClass::kUser) == 0);
  }
  fixture.memory->FreeBlock(blocks.back());
  blocks.pop_back();
  blocks.push_back(fixture.memory->AllocateBlock(MemoryClass::kUser));
  REQUIRE(blocks.back() != 0);
  for (const std::uint64_t block : blocks) fixture.memory->FreeBlock(block);
}

}  // namespace
}  // namespace tidepool::storage
