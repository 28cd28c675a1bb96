// The words of a queue: growth, holes, and memory that comes back from the front.
#include "storage/location_deque.h"

#include <catch2/catch.hpp>

#include "storage/arena.h"

namespace tidepool::storage {
namespace {

struct DequeFixture {
  DequeFixture() {
    ArenaPoolOptions options;
    options.memory_bytes = 64 << 12;
    options.block_bytes = 4096;
    options.arena_first_bytes = 16 << 12;
    options.arena_bytes = 64 << 12;
    pool = ArenaPool::Create(options).value();
    memory = std::make_unique<CoreMemory>(*pool, 0);
    deque = std::make_unique<LocationDeque>(*memory);
  }
  bool Append(std::uint64_t id) {
    if (!deque->MakeRoom(id)) return false;
    deque->Append(id, id + 1);
    return true;
  }
  void AppendTo(std::uint64_t end) {
    for (std::uint64_t id = deque->end(); id < end; ++id) REQUIRE(Append(id));
  }

  std::unique_ptr<ArenaPool> pool;
  std::unique_ptr<CoreMemory> memory;
  std::unique_ptr<LocationDeque> deque;
};

constexpr std::uint64_t kIds = LocationDeque::kIdsPerChunk;

TEST_CASE("DequeFindsEachIdUntilItIsErased") {
  DequeFixture fixture;
  REQUIRE(fixture.Append(7));
  fixture.AppendTo(3 * kIds);
  for (std::uint64_t id = 7; id < 3 * kIds; ++id) REQUIRE(*fixture.deque->Find(id) == id + 1);
  REQUIRE(fixture.deque->Find(6) == nullptr);
  REQUIRE(fixture.deque->Find(3 * kIds) == nullptr);
  fixture.deque->Erase(700);
  REQUIRE(fixture.deque->Find(700) == nullptr);
  REQUIRE(fixture.deque->size() == 3 * kIds - 8);
  fixture.deque->CheckInvariants();
}

TEST_CASE("DequeGivesMemoryBackFromItsFront") {
  DequeFixture fixture;
  fixture.AppendTo(10 * kIds);
  const std::uint64_t full_bytes = fixture.deque->allocated_bytes();
  REQUIRE(full_bytes >= 10 * kChunkBytesMin);
  for (std::uint64_t id = 0; id < 9 * kIds; ++id) fixture.deque->Erase(id);
  REQUIRE(fixture.deque->allocated_bytes() <= 2 * kChunkBytesMin);
  REQUIRE(fixture.memory->chunk_bytes_used() == fixture.deque->allocated_bytes());
  fixture.deque->CheckInvariants();
}

TEST_CASE("DequePassesHolesWhenItsFrontGoes") {
  DequeFixture fixture;
  fixture.AppendTo(5 * kIds);
  for (std::uint64_t id = 1; id < 4 * kIds + 3; ++id) fixture.deque->Erase(id);
  REQUIRE(fixture.deque->begin() == 0);
  fixture.deque->Erase(0);
  REQUIRE(fixture.deque->begin() == 4 * kIds + 3);
  REQUIRE(fixture.deque->allocated_bytes() <= 2 * kChunkBytesMin);
  fixture.deque->CheckInvariants();
}

TEST_CASE("DequeThatWasEmptiedGoesOnAnywhere") {
  DequeFixture fixture;
  for (const std::uint64_t id : {std::uint64_t{3}, kIds - 1, 2 * kIds, 7 * kIds + 1}) {
    REQUIRE(fixture.Append(id));
    REQUIRE(fixture.deque->begin() == id);
    REQUIRE(fixture.Append(id + 2));  // A gap.
    REQUIRE(fixture.deque->Find(id + 1) == nullptr);
    fixture.deque->CheckInvariants();
    fixture.deque->Erase(id);
    REQUIRE(fixture.deque->begin() == id + 2);
    fixture.deque->Erase(id + 2);
    REQUIRE(fixture.deque->empty());
    fixture.deque->CheckInvariants();
  }
}

TEST_CASE("DequeIsRefusedMemoryAndStaysWhole") {
  DequeFixture fixture;
  std::uint64_t id = 0;
  while (fixture.Append(id)) ++id;
  REQUIRE(id % kIds == 0);
  REQUIRE(!fixture.Append(id));
  fixture.deque->CheckInvariants();
  for (std::uint64_t each = 0; each < 2 * kIds; ++each) fixture.deque->Erase(each);
  REQUIRE(fixture.Append(id));
}

}  // namespace
}  // namespace tidepool::storage
