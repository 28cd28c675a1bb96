// The words of a queue: growth, holes, and memory that comes back from the front.
#include "storage/location_deque.h"

#include <catch2/catch.hpp>

#include <map>
#include <random>

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

TEST_CASE("DequeIsAsAMapWhereIdsJump") {
  const std::uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int history = 0; history < 50; ++history) {
    DequeFixture fixture;
    std::map<std::uint64_t, std::uint64_t> model;
    std::uint64_t next_id = random() % 1'000;
    for (int step = 0; step < 2'000; ++step) {
      if (random() % 100 == 0) next_id += 1ull << (random() % 45);
      if (random() % 5 < 3) {
        if (!fixture.Append(next_id)) continue;
        model[next_id] = next_id + 1;
        next_id += 1 + (random() % 10 == 0 ? random() % 3 : 0);
      } else if (!model.empty()) {
        // Mostly the first element.
        auto erased = model.begin();
        if (random() % 4 == 0) erased = model.lower_bound(random() % next_id);
        if (erased == model.end()) continue;
        fixture.deque->Erase(erased->first);
        model.erase(erased);
      }
      REQUIRE(fixture.deque->size() == model.size());
      if (!model.empty()) REQUIRE(fixture.deque->begin() == model.begin()->first);
      const std::uint64_t from = random() % (next_id + 2);
      const auto found = model.lower_bound(from);
      const std::uint64_t next = fixture.deque->Next(from);
      REQUIRE(next == (found == model.end() ? fixture.deque->end() : found->first));
      REQUIRE((fixture.deque->Find(from) != nullptr) == model.contains(from));
      if (next < fixture.deque->end()) REQUIRE(*fixture.deque->Find(next) == found->second);
    }
    fixture.deque->CheckInvariants();
    std::uint64_t at = fixture.deque->begin();
    for (const auto& [id, location] : model) {
      REQUIRE(at == id);
      at = fixture.deque->Next(at + 1);
    }
    while (!fixture.deque->empty()) fixture.deque->Erase(fixture.deque->begin());
    REQUIRE(fixture.deque->allocated_bytes() <= 2 * kChunkBytesMin);
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
