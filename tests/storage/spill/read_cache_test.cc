// Copies of records on a device: a read record comes back into memory, and stays there as long as
// it is read again.
#include <catch2/catch.hpp>

#include "tests/storage/spill/spill_fixture.h"

namespace tidepool::storage {
namespace {

std::uint64_t FetchesOf(StoreFixture& fixture, int begin, int end, int step = 1) {
  const std::uint64_t before = fixture.fetches;
  for (int i = begin; i < end; i += step) {
    REQUIRE(fixture.Text(KeyOf(i)) == ValueOf(i));
    if (i % 16 == 0) Work(fixture);
  }
  return fixture.fetches - before;
}

TEST_CASE("WhatWasReadIsFetchedOnce") {
  StoreFixture fixture(Spilling());
  PutAll(fixture, 0, 8'000);
  Quiesce(fixture);
  CHECK(FetchesOf(fixture, 0, 200) == 200);
  CHECK(FetchesOf(fixture, 0, 200) == 0);
  fixture.core->CheckInvariants();
}

TEST_CASE("WhatIsReadAgainStaysWhereOthersGo") {
  StoreFixture fixture(Spilling());
  PutAll(fixture, 0, 8'000);
  Quiesce(fixture);
  (void)FetchesOf(fixture, 0, 200);
  std::uint64_t again = 0;
  for (int begin = 200; begin < 7'000; begin += 200) {
    (void)FetchesOf(fixture, begin, begin + 200);
    Quiesce(fixture);
    again += FetchesOf(fixture, 0, 200);
  }
  CHECK(Counters(fixture).freed_cache_segments > 20);
  CHECK(again < 200);  // Out of 6,800.
  fixture.core->CheckInvariants();
}

TEST_CASE("TheCacheMakesWayForWrites") {
  StoreFixture fixture(Spilling());
  PutAll(fixture, 0, 8'000);
  Quiesce(fixture);
  (void)FetchesOf(fixture, 0, 2'000);
  (void)FetchesOf(fixture, 0, 500);
  PutAll(fixture, 10'000, 14'000);
  CHECK(Counters(fixture).freed_cache_segments > 0);
  (void)FetchesOf(fixture, 0, 8'000, 3);
  (void)FetchesOf(fixture, 10'000, 14'000);
  fixture.core->CheckInvariants();
}

TEST_CASE("AWalkLeavesTheCacheAlone") {
  StoreFixture fixture(Spilling());
  PutAll(fixture, 0, 8'000);
  Quiesce(fixture);
  (void)FetchesOf(fixture, 0, 200);
  std::uint64_t records = 0;
  for (IterateResult at; !at.done;) {
    at = fixture.Run([&] {
      return fixture.store->Iterate(at.cursor, 64, fixture.core->NowMs(),
                                    [](const RecordView&) { return true; });
    });
    records += at.records;
    Work(fixture);
  }
  CHECK(records == 8'000);
  CHECK(Counters(fixture).freed_cache_segments == 0);
  CHECK(FetchesOf(fixture, 0, 200) == 0);
}

TEST_CASE("ACopyGoesWithItsRecord") {
  StoreFixture fixture(Spilling());
  PutAll(fixture, 0, 8'000);
  Quiesce(fixture);
  (void)FetchesOf(fixture, 0, 400);
  for (int i = 0; i < 400; i += 2) REQUIRE(fixture.Delete(KeyOf(i)).code == StatusCode::kOk);
  for (int i = 1; i < 400; i += 2) {
    REQUIRE(fixture.Put(KeyOf(i), ValueOf(i + 1)).code == StatusCode::kOk);
  }
  fixture.core->CheckInvariants();
  for (int i = 0; i < 400; i += 2) REQUIRE(fixture.Text(KeyOf(i)) == "<NOT_FOUND>");
  for (int i = 1; i < 400; i += 2) REQUIRE(fixture.Text(KeyOf(i)) == ValueOf(i + 1));
  fixture.core->DropPartition(fixture.partition->id());
  Quiesce(fixture);
  fixture.core->CheckInvariants();
  CHECK(fixture.volume->usage().slots_used == 0);
  CHECK(fixture.core->usage().live_bytes == 0);
}

TEST_CASE("ACopyIsWrittenAsANewRecord") {
  StoreFixture fixture(Spilling());
  REQUIRE(fixture.Add("counter", 5).result == 5);
  PutAll(fixture, 0, 8'000);
  Quiesce(fixture);
  REQUIRE(fixture.Get("counter").value.size() == 8);
  const std::uint64_t fetches = fixture.fetches;
  CHECK(fixture.Add("counter", 2).result == 7);
  CHECK(fixture.Add("counter", 2).result == 9);
  CHECK(fixture.fetches == fetches);
  fixture.core->CheckInvariants();
}

TEST_CASE("CopiesFollowTheirHomeWhenItIsCompacted") {
  StoreFixture fixture(Spilling(48, 128));
  PutAll(fixture, 0, 8'000);
  Quiesce(fixture);
  for (int i = 0; i < 8'000; ++i) {
    if (i % 6 != 0) REQUIRE(fixture.Delete(KeyOf(i)).code == StatusCode::kOk);
    if (i % 6 == 0) REQUIRE(fixture.Text(KeyOf(i)) == ValueOf(i));
  }
  for (int begin = 10'000; begin < 14'000; begin += 500) {
    PutAll(fixture, begin, begin + 500);
    fixture.core->CheckInvariants();
    (void)FetchesOf(fixture, 0, 1'200, 6);
  }
  CHECK(Counters(fixture).returned_segments > 0);
  (void)FetchesOf(fixture, 0, 8'000, 6);
  (void)FetchesOf(fixture, 10'000, 14'000);
  fixture.core->CheckInvariants();
}

TEST_CASE("ACopyExpires") {
  StoreFixture fixture(Spilling());
  PutOptions options;
  options.ttl_ms = 5'000;
  for (int i = 0; i < 8'000; ++i) {
    REQUIRE(fixture.Put(KeyOf(i), ValueOf(i), options).code == StatusCode::kOk);
    if (i % 16 == 0) Work(fixture);
  }
  (void)FetchesOf(fixture, 0, 400);
  fixture.AdvanceMs(6'000);
  Quiesce(fixture);
  fixture.core->CheckInvariants();
  // The sweep has removed them, so a read finds no record to remove.
  const std::uint64_t left = fixture.store->size();
  CHECK(left <= 8'000 - 400);
  for (int i = 0; i < 400; ++i) REQUIRE(fixture.Text(KeyOf(i)) == "<NOT_FOUND>");
  CHECK(fixture.store->size() == left);
}

}  // namespace
}  // namespace tidepool::storage
