// The lines of reservations: order, refusals, and blocks that go back.
#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <vector>

#include "storage/arena.h"
#include "tests/storage/store_fixture.h"

namespace tidepool::storage {
namespace {

using Kind = Reservation::Kind;
using Held = std::shared_ptr<Reservation>;

// A node of two cores with all its memory in use.
struct Fixture {
  explicit Fixture(std::uint64_t blocks = 32, bool cores = true) {
    ArenaPoolOptions options;
    options.block_bytes = 64 * 1024;
    options.memory_bytes = blocks * options.block_bytes;
    options.arena_first_bytes = 4 * options.block_bytes;
    pool = ArenaPool::Create(options).value();
    if (cores) core = {pool->AddCore(), pool->AddCore()};
    if (cores) TellAll({.makes_room = true, .has_slots = true});
    while (const std::uint64_t block = pool->Allocate(false)) used.push_back(block);
  }
  ~Fixture() { Free(used.size()); }
  // Frees blocks like a spiller.
  void Free(std::size_t blocks) {
    for (; blocks > 0; --blocks) {
      pool->Free(used.back(), false);
      used.pop_back();
    }
  }
  // Each core has looked for room.
  void Tell(RoomCore* of, RoomLook look) {
    look.asked = pool->room_asked();
    pool->TellRoom(of, look);
  }
  void TellAll(const RoomLook& look) {
    for (RoomCore* each : core) Tell(each, look);
  }
  Held Reserve(Kind kind, std::uint64_t blocks, int of = 0) {
    return pool->Reserve(kind, blocks, core.empty() ? nullptr : core[static_cast<std::size_t>(of)]);
  }

  std::unique_ptr<ArenaPool> pool;
  std::vector<RoomCore*> core;
  std::vector<std::uint64_t> used;
};

bool IsGranted(const Held& held) { return held->state() == Reservation::State::kGranted; }

TEST_CASE("ValuesOfAllCoresAreServedInTheOrderOfComing") {
  Fixture fixture;
  const Held first = fixture.Reserve(Kind::kValue, 6, 0);
  const Held second = fixture.Reserve(Kind::kValue, 2, 1);
  const Held third = fixture.Reserve(Kind::kValue, 3, 0);
  CHECK(fixture.pool->room_wanted() == 11);
  fixture.Free(1 + 5);  // The last block is for indexes.
  CHECK_FALSE(IsGranted(first));
  CHECK_FALSE(IsGranted(second));  // The first comes first, though the second would fit.
  fixture.Free(1);
  CHECK(IsGranted(first));
  CHECK_FALSE(IsGranted(second));
  fixture.Free(2);
  CHECK(IsGranted(second));
  CHECK_FALSE(IsGranted(third));
  fixture.Free(3);
  CHECK(IsGranted(third));
  CHECK_FALSE(fixture.pool->room_waits());
}

TEST_CASE("WhatIsReservedIsNobodyElses") {
  Fixture fixture;
  const Held held = fixture.Reserve(Kind::kValue, 4);
  fixture.Free(1 + 4);
  REQUIRE(IsGranted(held));
  const std::uint64_t last = fixture.pool->Allocate(false);
  CHECK(last != 0);
  CHECK(fixture.pool->Allocate(false) == 0);
  for (int i = 0; i < 4; ++i) {
    fixture.used.push_back(held->Take());
    REQUIRE(fixture.used.back() != 0);
  }
  CHECK(held->Take() == 0);
  fixture.used.push_back(last);
}

TEST_CASE("NeitherOperationsNorValuesStarve") {
  Fixture fixture;
  const Held value = fixture.Reserve(Kind::kValue, 8);
  int operations = 0;
  int freed = 0;
  fixture.Free(1);
  // Operations come all the time.
  for (Held operation = fixture.Reserve(Kind::kOperation, 2); !IsGranted(value); ++freed) {
    REQUIRE(freed < 24);
    fixture.Free(1);
    if (!IsGranted(operation)) continue;
    ++operations;
    // It fills a segment from its reservation.
    for (std::uint64_t block = operation->Take(); block != 0; block = operation->Take()) {
      fixture.used.insert(fixture.used.begin(), block);
    }
    operation = fixture.Reserve(Kind::kOperation, 2);
  }
  CHECK(operations >= 3);
  CHECK(freed >= 14);
}

TEST_CASE("WhoLeavesTheLineGivesWhatItHadToTheNext") {
  Fixture fixture;
  Held first = fixture.Reserve(Kind::kValue, 6, 0);
  const Held second = fixture.Reserve(Kind::kValue, 4, 1);
  fixture.Free(1 + 4);
  CHECK_FALSE(IsGranted(second));
  first->Cancel();
  CHECK(first->refused());
  CHECK(IsGranted(second));
  first->Cancel();  // Once is enough.
}

TEST_CASE("AKilledClientsReservationGoesBack") {
  Fixture fixture;
  Held first = fixture.Reserve(Kind::kValue, 6, 0);
  fixture.Free(1 + 6);
  REQUIRE(IsGranted(first));
  const Held second = fixture.Reserve(Kind::kValue, 6, 1);
  CHECK(second->waits());
  fixture.used.push_back(first->Take());  // It had begun to write.
  first = nullptr;
  CHECK(second->waits());
  fixture.Free(1);
  CHECK(IsGranted(second));
}

TEST_CASE("ValuesTogetherLeaveRoomForOperations") {
  Fixture fixture(32);
  std::vector<Held> granted;
  fixture.Free(fixture.used.size());
  for (int i = 0; i < 8; ++i) {
    granted.push_back(fixture.Reserve(Kind::kValue, 8));
    if (!IsGranted(granted.back())) break;
  }
  CHECK(granted.size() == 4);  // 24 of 32 are theirs.
  const Held operation = fixture.Reserve(Kind::kOperation, 2);
  CHECK(IsGranted(operation));
  // A single value may have more.
  granted.clear();
  CHECK(IsGranted(fixture.Reserve(Kind::kValue, 28)));
}

TEST_CASE("RefusedIsOnlyWhereEachCoreHasLookedInVain") {
  Fixture fixture;
  const Held value = fixture.Reserve(Kind::kValue, 6, 0);
  const Held operation = fixture.Reserve(Kind::kOperation, 2, 1);
  fixture.Tell(fixture.core[0], {.makes_room = false, .has_slots = false});
  CHECK(value->waits());
  CHECK(operation->waits());
  SECTION("the other one makes room") {
    fixture.Tell(fixture.core[1], {.makes_room = true, .has_slots = true});
    CHECK(value->waits());
    CHECK(operation->waits());
    fixture.Tell(fixture.core[1], {.makes_room = false, .has_slots = false});
  }
  SECTION("nor does the other one") {
    fixture.Tell(fixture.core[1], {.makes_room = false, .has_slots = false});
  }
  CHECK(value->refused());
  CHECK(operation->refused());
  CHECK(fixture.pool->room_wanted() == 0);
  CHECK(ArenaPool::TakeRoomNews(fixture.core[0]));
  CHECK(ArenaPool::TakeRoomNews(fixture.core[1]));
}

TEST_CASE("WhatIsBeingWrittenIsWaitedForWhileDevicesHaveRoom") {
  Fixture fixture;
  Held written = fixture.Reserve(Kind::kValue, 6);
  fixture.Free(1 + 6);
  REQUIRE(IsGranted(written));
  const Held next = fixture.Reserve(Kind::kValue, 6);
  fixture.TellAll({.makes_room = false, .has_slots = true});
  CHECK(next->waits());
  fixture.TellAll({.makes_room = false, .has_slots = false});
  CHECK(next->refused());
}

// Its blocks may leave memory then, which no core has reported yet.
TEST_CASE("AfterTheEndOfAValueEachCoreLooksAgain") {
  Fixture fixture;
  Held written = fixture.Reserve(Kind::kValue, 6, 0);
  fixture.Free(1 + 6);
  REQUIRE(IsGranted(written));
  const Held next = fixture.Reserve(Kind::kValue, 8, 1);
  fixture.TellAll({.makes_room = false, .has_slots = true});
  REQUIRE(next->waits());
  for (int i = 0; i < 6; ++i) fixture.used.push_back(written->Take());
  written = nullptr;
  fixture.Tell(fixture.core[1], {.makes_room = false, .has_slots = true});
  CHECK(next->waits());
  fixture.Tell(fixture.core[0], {.makes_room = true, .has_slots = true});
  CHECK(next->waits());
  fixture.TellAll({.makes_room = false, .has_slots = false});
  CHECK(next->refused());
}

// Memory of values that are being read, say by a slow client, comes free later.
TEST_CASE("WhileDevicesHaveRoomOnlyFixedBlocksRefuse") {
  Fixture fixture(32);
  const Held value = fixture.Reserve(Kind::kValue, 16);
  fixture.TellAll({.makes_room = false, .has_slots = true, .fixed_blocks = 4});
  CHECK(value->waits());
  fixture.TellAll({.makes_room = false, .has_slots = true, .fixed_blocks = 5});
  CHECK(value->refused());
}

TEST_CASE("WhatIndexesLeaveNoRoomForIsRefused") {
  Fixture fixture(32);
  const Held value = fixture.Reserve(Kind::kValue, 20);
  fixture.TellAll({.makes_room = true, .has_slots = true, .fixed_blocks = 2});
  CHECK(value->waits());
  fixture.TellAll({.makes_room = true, .has_slots = true, .fixed_blocks = 6});
  CHECK(value->refused());
}

TEST_CASE("WithoutDevicesNobodyWaits") {
  Fixture fixture(8, false);
  CHECK(fixture.Reserve(Kind::kValue, 4)->refused());
  fixture.Free(5);
  CHECK(IsGranted(fixture.Reserve(Kind::kValue, 4)));
}

TEST_CASE("WhereDevicesAreFullWhatIsReadComesFirst") {
  Fixture fixture;
  const Held written = fixture.Reserve(Kind::kValue, 4);
  const Held operation = fixture.Reserve(Kind::kOperation, 2);
  const Held read = fixture.Reserve(Kind::kReturn, 4);
  fixture.TellAll({.makes_room = true, .has_slots = false});
  fixture.Free(4);
  CHECK(IsGranted(read));
  CHECK(written->waits());
  CHECK(operation->waits());
}

// The put of a granted value may stand behind a get of its key.
TEST_CASE("AValueThatIsReadDoesNotWaitForOneThatWaitsForOthersEnd") {
  Fixture fixture(32);
  const Held written = fixture.Reserve(Kind::kValue, 16);
  fixture.Free(1 + 16);
  REQUIRE(IsGranted(written));
  const Held next = fixture.Reserve(Kind::kValue, 16);
  const Held read = fixture.Reserve(Kind::kReturn, 5);
  fixture.Free(5);
  CHECK(next->waits());
  CHECK(IsGranted(read));
}

// Values of all sizes on both cores, some of which are given up: each is served, and in its order.
TEST_CASE("EveryValueGetsItsTurn") {
  const std::uint64_t seed = TestSeed();
  INFO("TP_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  Fixture fixture(48);
  std::vector<Held> waiting;
  std::vector<std::pair<Held, int>> writing;  // Values with their remaining bytes to write.
  int begun = 0;
  int ended = 0;
  for (int turn = 0; ended < 2'000; ++turn) {
    REQUIRE(turn < 1'000'000);
    if (begun < 2'000 && waiting.size() < 12) {
      waiting.push_back(
          fixture.Reserve(Kind::kValue, 2 + random() % 20, static_cast<int>(random() % 2)));
      ++begun;
    }
    if (random() % 20 == 0 && !waiting.empty()) {
      waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(random() % waiting.size()));
      ++ended;
    }
    bool earlier_waits = false;
    for (auto each = waiting.begin(); each != waiting.end();) {
      REQUIRE_FALSE((*each)->refused());
      REQUIRE_FALSE((earlier_waits && IsGranted(*each)));
      if (!IsGranted(*each)) {
        earlier_waits = true;
        ++each;
        continue;
      }
      writing.emplace_back(*each, 3);
      each = waiting.erase(each);
    }
    if (!writing.empty() && --writing[random() % writing.size()].second == 0) {
      const auto over = std::find_if(writing.begin(), writing.end(),
                                     [](const auto& each) { return each.second == 0; });
      // Published: its blocks may leave, to free memory.
      for (std::uint64_t block = over->first->Take(); block != 0; block = over->first->Take()) {
        fixture.used.push_back(block);
      }
      writing.erase(over);
      ++ended;
    }
    if (fixture.pool->room_wanted() > 0 && !fixture.used.empty()) fixture.Free(1);
  }
}

}  // namespace
}  // namespace tidepool::storage
