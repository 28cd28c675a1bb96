#include "storage/nvm/slot_pool.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <thread>

namespace tidepool::storage {
namespace {

TEST_CASE("SlotsComeFromTheDevicesInTurns") {
  SlotPool pool({10, 10, 10});
  for (std::uint64_t i = 0; i < 30; ++i) CHECK(pool.Allocate() == i);
  CHECK(pool.Allocate() == kNoSlot);
  CHECK(pool.used_of(1) == 10);
  pool.Free(7);
  CHECK(pool.used_of(1) == 9);
  CHECK(pool.Allocate() == 7);
}

TEST_CASE("DevicesOfDifferentSizeAreUsedToTheirEnds") {
  SlotPool pool({3, 200, 0});
  std::set<std::uint64_t> seen;
  for (std::uint64_t slot = pool.Allocate(); slot != kNoSlot; slot = pool.Allocate()) {
    CHECK(seen.insert(slot).second);
    CHECK(slot / 3 < (slot % 3 == 0 ? 3u : slot % 3 == 1 ? 200u : 0u));
  }
  CHECK(seen.size() == 203);
  CHECK(pool.count() == 203);
  CHECK(pool.used() == 203);
}

TEST_CASE("ASlotJustFreedIsUsedAgainLast") {
  SlotPool pool({256});
  for (int i = 0; i < 128; ++i) pool.Allocate();
  pool.Free(0);
  for (std::uint64_t i = 128; i < 256; ++i) CHECK(pool.Allocate() == i);
  CHECK(pool.Allocate() == 0);
}

TEST_CASE("ASlotCanBeTakenByItsNumberOnce") {
  SlotPool pool({4, 2});
  CHECK(pool.Take(2));
  CHECK_FALSE(pool.Take(2));
  CHECK_FALSE(pool.Take(5));  // Device 1 has two.
  CHECK_FALSE(pool.Take(kNoSlot - 1));
  CHECK(pool.used() == 1);
  std::set<std::uint64_t> others;
  for (std::uint64_t slot = pool.Allocate(); slot != kNoSlot; slot = pool.Allocate()) {
    others.insert(slot);
  }
  CHECK(others == std::set<std::uint64_t>{0, 1, 3, 4, 6});
}

TEST_CASE("ThePoolAgreesWithASetUnderRandomUse") {
  const std::uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  SlotPool pool({100, 64, 65});
  std::vector<std::uint64_t> used;
  for (int round = 0; round < 20'000; ++round) {
    if (random() % 2 == 0) {
      const std::uint64_t slot = pool.Allocate();
      REQUIRE((slot == kNoSlot) == (used.size() == 229));
      if (slot == kNoSlot) continue;
      REQUIRE(std::find(used.begin(), used.end(), slot) == used.end());
      used.push_back(slot);
    } else if (!used.empty()) {
      std::swap(used[random() % used.size()], used.back());
      pool.Free(used.back());
      used.pop_back();
    }
    REQUIRE(pool.used() == used.size());
  }
}

TEST_CASE("TwoThreadsNeverGetTheSameSlot") {
  SlotPool pool({1'000, 1'000});
  std::vector<std::uint64_t> got[2];
  const auto take = [&pool](std::vector<std::uint64_t>* to) {
    for (int i = 0; i < 20'000; ++i) {
      to->push_back(pool.Allocate());
      if (to->size() > 500) {
        pool.Free(to->front());
        to->erase(to->begin());
      }
    }
  };
  std::thread other(take, &got[1]);
  take(&got[0]);
  other.join();
  std::set<std::uint64_t> all(got[0].begin(), got[0].end());
  all.insert(got[1].begin(), got[1].end());
  CHECK(all.size() == got[0].size() + got[1].size());
  CHECK(pool.used() == all.size());
}

}  // namespace
}  // namespace tidepool::storage
