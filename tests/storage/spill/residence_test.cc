// Where the records of a partition are, and how much was written for them.
#include <catch2/catch.hpp>
#include <random>

#include "storage/residence.h"
#include "tests/storage/queue_fixture.h"
#include "tests/storage/spill/spill_fixture.h"

namespace tidepool::storage {
namespace {

constexpr std::uint64_t kAll = 1 << 20;
// Bytes of KeyOf and ValueOf, with header and padding.
constexpr std::uint64_t kRecordBytes = 1'040;

// Looks in slices of this number of looks at the clock.
Residence Look(StoreFixture& fixture, std::uint64_t looks_max, int slice = 1'000'000) {
  Partition::ResidenceWalk walk(looks_max);
  int left = slice;
  while (walk.Slice(*fixture.partition, [&] { return left-- == 0; })) left = slice;
  return walk.found();
}

Residence Scaled(StoreFixture& fixture, const Residence& found) {
  return found.ScaledTo(fixture.partition->records(), fixture.partition->store().payload_bytes());
}

TEST_CASE("EachRecordIsInMemoryOrOnTheDevice") {
  StoreFixture fixture(Spilling());
  PutAll(fixture, 0, 8'000);
  Quiesce(fixture);
  const Residence found = Look(fixture, kAll, GENERATE(1, 3, 1'000'000));
  CHECK(found.memory_records + found.device_records == 8'000);
  CHECK(found.device_records * kRecordBytes == fixture.core->usage().spilled_live_bytes);
  CHECK(found.cached_records == 0);
  CHECK_FALSE(found.sampled);
  const Residence scaled = Scaled(fixture, found);
  CHECK(scaled.memory_records == found.memory_records);
  CHECK(scaled.memory_bytes == found.memory_bytes);
  CHECK(scaled.memory_bytes + scaled.device_bytes == fixture.store->payload_bytes());
  CHECK(scaled.device_bytes / scaled.device_records == 1'000 + 6);
}

TEST_CASE("WhatWasReadIsInMemoryAsACopy") {
  StoreFixture fixture(Spilling());
  PutAll(fixture, 0, 8'000);
  Quiesce(fixture);
  for (int i = 0; i < 200; ++i) REQUIRE(fixture.Text(KeyOf(i)) == ValueOf(i));
  REQUIRE(fixture.fetches == 200);
  const Residence after = Look(fixture, kAll);
  CHECK(after.cached_records == 200);
  CHECK(after.memory_records + after.device_records == 8'000);
  // Their homes are on the device, and count there.
  const std::uint64_t homes = after.device_records + after.cached_records;
  CHECK(homes * kRecordBytes == fixture.core->usage().spilled_live_bytes);
}

TEST_CASE("ASampleStandsForAll") {
  StoreFixture fixture(Spilling());
  PutAll(fixture, 0, 8'000);
  Quiesce(fixture);
  const Residence all = Look(fixture, kAll);
  const Residence found = Look(fixture, 1'000);
  CHECK(found.sampled);
  CHECK(found.memory_records + found.device_records < 1'500);
  const Residence scaled = Scaled(fixture, found);
  CHECK(scaled.memory_records + scaled.device_records == 8'000);
  CHECK(scaled.memory_bytes + scaled.device_bytes == fixture.store->payload_bytes());
  const auto near = [](std::uint64_t a, std::uint64_t b) { return a < 1.1 * b && b < 1.1 * a; };
  CHECK(near(scaled.device_records, all.device_records));
  CHECK(near(scaled.device_bytes, Scaled(fixture, all).device_bytes));
}

TEST_CASE("WhereNothingHasLeftAllIsInMemory") {
  StoreFixture fixture(Spilling());
  CHECK(Scaled(fixture, Look(fixture, kAll)).memory_records == 0);
  PutAll(fixture, 0, 100);
  const Residence scaled = Scaled(fixture, Look(fixture, kAll));
  CHECK(scaled.memory_records == 100);
  CHECK(scaled.memory_bytes == fixture.store->payload_bytes());
  CHECK(scaled.device_records + scaled.device_bytes == 0);
}

TEST_CASE("ItemsOfQueuesAreFoundToo") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  QueueFixture fixture(OfKind(kind, Spilling()));
  for (int i = 0; i < 8'000; ++i) {
    REQUIRE(fixture.PushAt(kind == Kind::kQueue ? 0 : i % 7, ValueOf(i)).code == StatusCode::kOk);
    if (i % 16 == 0) Work(fixture);
  }
  Quiesce(fixture);
  const Residence found = Look(fixture, kAll, GENERATE(1, 1'000'000));
  CHECK(found.memory_records + found.device_records == 8'000);
  const std::uint64_t item_bytes = kRecordBytes + (kind == Kind::kPriority ? 8 : 0);  // Its key.
  CHECK(found.device_records * item_bytes == fixture.core->usage().spilled_live_bytes);
  REQUIRE(fixture.Lease(100, 1'000'000).size() == 100);
  const Residence leased = Look(fixture, kAll);
  CHECK(leased.memory_records + leased.device_records == 8'000);
  const Residence some = Look(fixture, 800);
  CHECK(some.sampled);
  CHECK(some.memory_records + some.device_records < 1'000);
  const Residence scaled = Scaled(fixture, some);
  CHECK(scaled.memory_records + scaled.device_records == 8'000);
  CHECK(scaled.device_records > found.device_records * 0.9);
  CHECK(scaled.device_records < found.device_records * 1.1);
}

TEST_CASE("ALargeValueIsInMemoryIfAllOfItIs") {
  StoreFixture fixture(Spilling(64, 256));
  const std::string large(150'000, 'x');
  for (int i = 0; i < 60; ++i) {
    REQUIRE(fixture.Put(KeyOf(i), large).code == StatusCode::kOk);
    Work(fixture);
  }
  Quiesce(fixture);
  const Residence scaled = Scaled(fixture, Look(fixture, kAll));
  CHECK(scaled.memory_records + scaled.device_records == 60);
  CHECK(scaled.device_records > 30);
  CHECK(scaled.memory_bytes + scaled.device_bytes == fixture.store->payload_bytes());
  CHECK(scaled.device_bytes > 30 * large.size());
  CHECK(scaled.memory_bytes < 64 * kBlockBytes);
}

TEST_CASE("WhatCompactionWritesAgainCountsOnceAsRecords") {
  StoreFixture fixture(Spilling(48, 128));
  PutAll(fixture, 0, 7'500);
  Quiesce(fixture);
  CHECK(Counters(fixture).record_bytes == fixture.core->usage().spilled_live_bytes);
  CHECK(Counters(fixture).written_bytes >= Counters(fixture).record_bytes);
  // Segments have to make way again and again, each with some that still count.
  std::minstd_rand random(1);
  constexpr int kChanges = 40'000;
  for (int i = 0; i < kChanges; ++i) {
    REQUIRE(fixture.Put(KeyOf(static_cast<int>(random() % 7'500)), ValueOf(i)).code ==
            StatusCode::kOk);
    if (i % 16 == 0) Work(fixture);
  }
  Quiesce(fixture);
  const SpillCounters counters = Counters(fixture);
  REQUIRE(counters.returned_segments > 10);
  CHECK(counters.record_bytes <= (7'500 + kChanges) * kRecordBytes);
  CHECK(counters.written_bytes > counters.record_bytes);
}

TEST_CASE("ADurableChangeCountsOnceHoweverOftenItIsMarked") {
  StoreOptions options = Spilling();
  options.partition.durability = Durability::kAsync;
  StoreFixture fixture(options);
  for (int i = 0; i < 300; i += 3) {
    PutAll(fixture, i, i + 3);
    bool durable = false;
    fixture.core->Persist([&](const Status& status) { durable = status.ok(); });
    while (!durable) Work(fixture);
  }
  const StoreCounters counters = fixture.core->counters();
  CHECK(counters.durable_bytes == 300 * kRecordBytes);
  CHECK(counters.checkpoint.written_bytes > counters.durable_bytes);  // Whole blocks.
  CHECK(counters.spill.record_bytes == 0);
}

}  // namespace
}  // namespace tidepool::storage
