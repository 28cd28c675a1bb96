// Iteration: exactly once, with the index growing under it.
#include <catch2/catch.hpp>

#include <map>
#include <set>

#include "tests/storage/store_fixture.h"

namespace tidepool::storage {
namespace {

std::string KeyOf(int i) { return "key" + std::to_string(i); }

// Makes a call; counts each accepted key.
IterateResult Visit(StoreFixture& fixture, std::uint64_t cursor, std::uint64_t records_max,
                    std::map<std::string, int>& seen) {
  return fixture.store->Iterate(cursor, records_max, fixture.core->NowMs(),
                                [&](const RecordView& view) {
                                  ++seen[std::string(AsText(view.key))];
                                  return true;
                                });
}

TEST_CASE("IterationOfAnEmptyStoreEnds") {
  StoreFixture fixture;
  std::map<std::string, int> seen;
  IterateResult result;
  while (!result.done) result = Visit(fixture, result.cursor, 10, seen);
  REQUIRE(seen.empty());
}

TEST_CASE("EachKeyIsVisitedOnceWithItsRecord") {
  StoreFixture fixture;
  for (int i = 0; i < 5000; ++i) fixture.Put(KeyOf(i), std::to_string(i));
  std::map<std::string, std::string> seen;
  IterateResult result;
  while (!result.done) {
    result = fixture.store->Iterate(
        result.cursor, 7, fixture.core->NowMs(), [&](const RecordView& view) {
          REQUIRE(view.version.value() != 0);
          REQUIRE(seen.emplace(AsText(view.key), AsText(view.value)).second);
          return true;
        });
    REQUIRE(result.records <= 7);
  }
  REQUIRE(seen.size() == 5000);
  for (int i = 0; i < 5000; ++i) REQUIRE(seen[KeyOf(i)] == std::to_string(i));
}

TEST_CASE("KeysPresentThroughoutAreVisitedOnceWhileTheIndexGrows") {
  StoreFixture fixture;
  constexpr int kBefore = 2000;
  for (int i = 0; i < kBefore; ++i) fixture.Put(KeyOf(i), "v");
  std::map<std::string, int> seen;
  IterateResult result;
  int next = kBefore;
  while (!result.done) {
    result = Visit(fixture, result.cursor, 10, seen);
    for (int i = 0; i < 40; ++i) fixture.Put(KeyOf(next++), "v");  // Several splits per call.
  }
  REQUIRE(fixture.store->index().bucket_count() > 8 * kBefore / 5);
  for (int i = 0; i < kBefore; ++i) {
    INFO(KeyOf(i));
    REQUIRE(seen[KeyOf(i)] == 1);
  }
  for (const auto& [key, times] : seen) REQUIRE(times == 1);
}

TEST_CASE("RefusedRecordComesAgain") {
  StoreFixture fixture;
  for (int i = 0; i < 100; ++i) fixture.Put(KeyOf(i), "v");
  std::set<std::string> seen;
  IterateResult result;
  int calls = 0;
  while (!result.done) {
    ++calls;
    int room = 3;
    result = fixture.store->Iterate(result.cursor, 50, fixture.core->NowMs(),
                                    [&](const RecordView& view) {
                                      if (room-- == 0) return false;
                                      REQUIRE(seen.insert(std::string(AsText(view.key))).second);
                                      return true;
                                    });
  }
  REQUIRE(seen.size() == 100);
  REQUIRE(calls >= 33);
}

TEST_CASE("KeysOfOneHashAreTakenTogetherOrNotAtAll") {
  StoreOptions options;
  options.core.hash_mask = 1;
  StoreFixture fixture(options);
  for (int i = 0; i < 40; ++i) fixture.Put(KeyOf(i), "v");
  std::map<std::string, int> accepted;
  IterateResult result;
  // Room for 10 at first: the group of the first hash does not fit and must be given whole later.
  int room = 10;
  result = fixture.store->Iterate(0, 5, fixture.core->NowMs(),
                                  [&](const RecordView&) { return room-- > 0; });
  REQUIRE(result.records == 0);
  REQUIRE_FALSE(result.done);
  while (!result.done) result = Visit(fixture, result.cursor, 5, accepted);
  REQUIRE(accepted.size() == 40);
  for (const auto& [key, times] : accepted) REQUIRE(times == 1);
}

TEST_CASE("ExpiredRecordsAreNotVisited") {
  StoreFixture fixture;
  PutOptions options;
  options.ttl_ms = 10;
  fixture.Put("gone", "v", options);
  fixture.Put("here", "v");
  fixture.AdvanceMs(10);
  std::map<std::string, int> seen;
  IterateResult result;
  while (!result.done) result = Visit(fixture, result.cursor, 10, seen);
  REQUIRE(seen.size() == 1);
  REQUIRE(seen.contains("here"));
}

TEST_CASE("SparseStoreIsWalkedInBoundedCalls") {
  StoreFixture fixture;
  for (int i = 0; i < 100'000; ++i) fixture.Put(KeyOf(i), "v");
  for (int i = 1; i < 100'000; ++i) fixture.Delete(KeyOf(i));
  std::map<std::string, int> seen;
  IterateResult result;
  int calls = 0;
  while (!result.done) {
    result = Visit(fixture, result.cursor, 1, seen);
    ++calls;
  }
  REQUIRE(seen.size() == 1);
  REQUIRE(calls > 100);
}

TEST_CASE("CallThatWantsVeryManyRecordsIsBoundedToo") {
  StoreOptions options;
  options.core.buckets_initial = 1 << 18;
  StoreFixture fixture(options);
  fixture.Put("key", "v");
  for (const std::uint64_t records_max :
       {std::uint64_t{1} << 20, std::uint64_t{1} << 60, ~std::uint64_t{0}}) {
    INFO(records_max);
    std::map<std::string, int> seen;
    IterateResult result;
    int calls = 0;
    while (!result.done) {
      result = Visit(fixture, result.cursor, records_max, seen);
      ++calls;
    }
    REQUIRE(seen.size() == 1);
    REQUIRE(calls == 4);  // 65,600 buckets each.
  }
}

}  // namespace
}  // namespace tidepool::storage
