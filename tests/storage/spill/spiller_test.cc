// Records that leave memory and come back, and devices that fail.
#include "storage/spill/spiller.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/storage/spill/spill_fixture.h"

namespace tidepool::storage {
namespace {

TEST_CASE("NothingLeavesWhileMemoryIsAmple") {
  StoreFixture fixture(Spilling(256));
  PutAll(fixture, 0, 4'000);
  Quiesce(fixture);
  CHECK(Counters(fixture).spilled_segments == 0);
  CHECK(fixture.fetches == 0);
}

TEST_CASE("WhatIsLargerThanMemoryIsAllThere") {
  StoreFixture fixture(Spilling());
  PutAll(fixture, 0, 8'000);
  Quiesce(fixture);
  CHECK(Counters(fixture).spilled_segments > 80);
  CHECK(fixture.volume->usage().slots_used == fixture.core->usage().spilled_bytes / kBlockBytes);
  for (int i = 0; i < 8'000; ++i) REQUIRE(fixture.Text(KeyOf(i)) == ValueOf(i));
  CHECK(fixture.fetches > 4'000);
  fixture.core->CheckInvariants();
}

TEST_CASE("AbsentKeysNeedNoRead") {
  StoreFixture fixture(Spilling());
  PutAll(fixture, 0, 8'000);
  for (int i = 0; i < 10'000; ++i) REQUIRE(fixture.Text("no" + KeyOf(i)) == "<NOT_FOUND>");
  CHECK(fixture.fetches < 10);
}

TEST_CASE("ASmallRecordBesideLargeOnesIsReadWithoutThem") {
  StoreFixture fixture(Spilling());
  const auto value = [](int i) {
    return std::string(i % 40 == 0 ? 20'000 : 100, static_cast<char>('a' + i % 26));
  };
  constexpr int kCount = 20'000;
  for (int i = 0; i < kCount; ++i) {
    REQUIRE(fixture.Put(KeyOf(i), value(i)).code == StatusCode::kOk);
    if (i % 16 == 0) Work(fixture);
  }
  Quiesce(fixture);
  const SpillCounters before = Counters(fixture);
  for (int i = 1; i < 4'000; i += 40) REQUIRE(fixture.Text(KeyOf(i)) == value(i));
  const SpillCounters after = Counters(fixture);
  CHECK(after.reads - before.reads == 100);
  CHECK(after.read_bytes - before.read_bytes <= 100 * 8'192);
  for (int i = 0; i < 4'000; i += 40) REQUIRE(fixture.Text(KeyOf(i)) == value(i));
}

TEST_CASE("ADroppedPartitionGivesItsSlotsBackUnread") {
  StoreFixture fixture(Spilling());
  PutAll(fixture, 0, 8'000);
  Quiesce(fixture);
  REQUIRE(fixture.volume->usage().slots_used > 50);
  const std::uint64_t reads = Counters(fixture).reads;
  fixture.core->DropPartition(fixture.partition->id());
  Quiesce(fixture);
  fixture.core->CheckInvariants();
  CHECK(fixture.volume->usage().slots_used == 0);
  CHECK(fixture.core->usage().spilled_bytes == 0);
  CHECK(Counters(fixture).reads == reads);
}

TEST_CASE("DeletedRecordsGiveTheirSlotsBack") {
  StoreFixture fixture(Spilling());
  PutAll(fixture, 0, 8'000);
  for (int i = 0; i < 8'000; ++i) REQUIRE(fixture.Delete(KeyOf(i)).code == StatusCode::kOk);
  Quiesce(fixture);
  CHECK(fixture.volume->usage().slots_used == 0);
  fixture.core->CheckInvariants();
}

TEST_CASE("MostlyDeadSegmentsComeBackWhenTheDeviceFills") {
  StoreFixture fixture(Spilling(48, 128));
  PutAll(fixture, 0, 8'000);
  // Two of three of each segment die.
  for (int i = 0; i < 8'000; ++i) {
    if (i % 3 != 0) REQUIRE(fixture.Delete(KeyOf(i)).code == StatusCode::kOk);
  }
  PutAll(fixture, 10'000, 14'000);
  Quiesce(fixture);
  CHECK(Counters(fixture).returned_segments > 0);
  for (int i = 0; i < 8'000; i += 3) REQUIRE(fixture.Text(KeyOf(i)) == ValueOf(i));
  for (int i = 10'000; i < 14'000; ++i) REQUIRE(fixture.Text(KeyOf(i)) == ValueOf(i));
  fixture.core->CheckInvariants();
}

TEST_CASE("WhatDiedInMemoryIsNotWritten") {
  StoreFixture fixture(Spilling(48, 512));
  for (int i = 0; i < 12'000; ++i) {
    REQUIRE(fixture.Put(KeyOf(i), ValueOf(i)).code == StatusCode::kOk);
    REQUIRE(fixture.Put("hot" + std::to_string(i % 200), ValueOf(i)).code == StatusCode::kOk);
    if (i % 16 == 0) Work(fixture);
  }
  const SpillCounters counters = Counters(fixture);
  CHECK(counters.spilled_segments > 100);
  // Without reuse nearly twice as many.
  CHECK(counters.written_bytes < counters.record_bytes * 5 / 4);
  for (int i = 0; i < 12'000; i += 7) REQUIRE(fixture.Text(KeyOf(i)) == ValueOf(i));
  for (int i = 11'800; i < 12'000; ++i) {
    REQUIRE(fixture.Text("hot" + std::to_string(i % 200)) == ValueOf(i));
  }
  fixture.core->CheckInvariants();
}

TEST_CASE("WhatIsWantedOfASegmentThatComesBackDoesNotKeepItThere") {
  StoreFixture fixture(Spilling(48, 128));
  PutAll(fixture, 0, 8'000);
  for (int i = 0; i < 8'000; ++i) {
    if (i % 3 != 0) REQUIRE(fixture.Delete(KeyOf(i)).code == StatusCode::kOk);
  }
  // Many clients at the same time, so that some ask for a segment that is just being read back.
  int reading = 0;
  for (int i = 10'000; i < 14'000; ++i) {
    REQUIRE(fixture.Put(KeyOf(i), ValueOf(i)).code == StatusCode::kOk);
    for (int client = 0; client < 8; ++client) {
      const std::string wanted = KeyOf((i * 8 + client) * 7 % 8'000 / 3 * 3);
      (void)fixture.store->Get(AsBytes(wanted), StoreFixture::Hash(wanted), fixture.core->NowMs());
      if (!fixture.core->blocked() || fixture.core->TakeLost() != StatusCode::kOk) continue;
      ++reading;
      fixture.core->Fetch([&reading] { --reading; });
    }
    if (i % 16 == 0) Work(fixture);
  }
  Quiesce(fixture);
  REQUIRE(reading == 0);
  CHECK(Counters(fixture).returned_segments > 0);
  // Otherwise it is in DRAM, holds its slot too, and is never examined again.
  const std::uint64_t on_device = fixture.core->usage().spilled_bytes / kBlockBytes;
  CHECK(fixture.volume->usage().slots_used <= on_device + 4);
  fixture.core->CheckInvariants();
}

TEST_CASE("AReadThatFailsIsAnErrorOfItsKeyAlone") {
  StoreFixture fixture(Spilling());
  PutAll(fixture, 0, 8'000);
  Quiesce(fixture);
  FaultRule rule;
  rule.operation = DeviceOperation::kRead;
  rule.error = EIO;
  fixture.device->AddRule(rule);
  REQUIRE(fixture.Text(KeyOf(0)) != ValueOf(0));
  CHECK(fixture.lost == StatusCode::kDeviceError);
  CHECK(Counters(fixture).failed_reads == 1);
  // The device was only momentarily ill.
  for (int i = 0; i < 100; ++i) REQUIRE(fixture.Text(KeyOf(i)) == ValueOf(i));
}

TEST_CASE("ADamagedRecordIsNeverServed") {
  StoreFixture fixture(Spilling());
  PutAll(fixture, 0, 8'000);
  Quiesce(fixture);
  FaultRule rule;  // Flips a bit of the read bytes.
  rule.operation = DeviceOperation::kRead;
  rule.times = 1'000'000;
  fixture.device->AddRule(rule);
  int lost = 0;
  for (int i = 0; i < 1'000; ++i) {
    fixture.lost = StatusCode::kOk;
    const std::string text = fixture.Text(KeyOf(i));
    if (fixture.lost == StatusCode::kOk) {
      REQUIRE(text == ValueOf(i));  // The bit was outside the record.
    } else {
      REQUIRE(fixture.lost == StatusCode::kDataLoss);
      ++lost;
    }
  }
  CHECK(lost > 50);
}

// Makes a bit of each read wrong.
void DamageReads(StoreFixture& fixture) {
  FaultRule rule;
  rule.operation = DeviceOperation::kRead;
  rule.times = 1'000'000;
  fixture.device->AddRule(rule);
}

TEST_CASE("AWalkPassesWhatCannotBeReadAndCountsIt") {
  StoreFixture fixture(Spilling());
  PutAll(fixture, 0, 8'000);
  Quiesce(fixture);
  DamageReads(fixture);
  std::set<std::string> seen;
  std::uint64_t unreadable = 0;
  IterateResult at;
  while (!at.done) {
    // Like in the daemon: the list of a run that must wait is dropped.
    std::vector<std::string> listed;
    at = fixture.Run([&] {
      listed.clear();
      return fixture.store->Iterate(at.cursor, 10'000, fixture.core->NowMs(),
                                    [&](const RecordView& record) {
                                      listed.emplace_back(AsText(record.key));
                                      REQUIRE(AsText(record.value).size() == 1'000);
                                      return true;
                                    });
    });
    REQUIRE(fixture.lost == StatusCode::kOk);
    listed.resize(at.records);
    for (const std::string& key : listed) REQUIRE(seen.insert(key).second);
    unreadable += at.unreadable;
  }
  CHECK(unreadable > 500);
  CHECK(seen.size() + unreadable == 8'000);
}

TEST_CASE("AScanPassesWhatCannotBeReadAndCountsIt") {
  StoreOptions options = Spilling();
  options.partition.kind = Kind::kOrdered;
  StoreFixture fixture(options);
  PutAll(fixture, 0, 8'000);
  Quiesce(fixture);
  DamageReads(fixture);
  OrderedStore& store = fixture.partition->ordered();
  for (const bool keys_only : {false, true}) {
    std::set<std::string> seen;
    std::uint64_t unreadable = 0;
    std::string last;
    for (bool done = false; !done;) {
      std::vector<std::string> listed;
      ScanOptions asked;
      asked.keys_only = keys_only;
      asked.range.begin = AsBytes(last);
      asked.range.after_begin = !last.empty();
      const RangeProgress progress = fixture.Run([&] {
        listed.clear();
        return store.Scan(asked, fixture.core->NowMs(), [&](const RecordView& record) {
          listed.emplace_back(AsText(record.key));
          return true;
        });
      });
      REQUIRE(fixture.lost == StatusCode::kOk);
      for (const std::string& key : listed) REQUIRE(seen.insert(key).second);
      unreadable += progress.unreadable;
      done = progress.done;
      REQUIRE((done || progress.last.has_value()));
      if (progress.last.has_value()) last = AsText(*progress.last);
    }
    CHECK((keys_only ? unreadable == 0 : unreadable > 500));
    CHECK(seen.size() + unreadable == 8'000);
  }
}

TEST_CASE("APutOrADeleteHealsADamagedKey") {
  StoreFixture fixture(Spilling());
  PutAll(fixture, 0, 8'000);
  Quiesce(fixture);
  const std::vector<std::byte> content = fixture.device->content();
  std::vector<int> damaged;
  for (int i = 0; i < 20; ++i) {
    const std::string record = KeyOf(i) + ValueOf(i);
    const auto at = AsText(content).find(record);
    if (at == std::string_view::npos) continue;  // It stayed in memory.
    fixture.device->FlipBit(at + KeyOf(i).size(), 1);
    damaged.push_back(i);
  }
  REQUIRE(damaged.size() > 10);
  const std::uint64_t size = fixture.partition->hash().size();
  std::uint64_t deleted = 0;
  for (const int i : damaged) {
    REQUIRE(fixture.Text(KeyOf(i)) != ValueOf(i));
    REQUIRE(fixture.lost == StatusCode::kDataLoss);
    fixture.lost = StatusCode::kOk;
    // Operations that depend on the present value fail.
    fixture.Put(KeyOf(i), "conditional", {.condition = PutCondition::kIfAbsent});
    REQUIRE(fixture.lost == StatusCode::kDataLoss);
    fixture.lost = StatusCode::kOk;
    if (i % 2 == 0) {
      REQUIRE(fixture.Put(KeyOf(i), "healed").code == StatusCode::kOk);
      REQUIRE(fixture.Text(KeyOf(i)) == "healed");
    } else {
      REQUIRE(fixture.Delete(KeyOf(i)).code == StatusCode::kOk);
      REQUIRE(fixture.Text(KeyOf(i)) == "<NOT_FOUND>");
      ++deleted;
    }
    REQUIRE(fixture.lost == StatusCode::kOk);
  }
  CHECK(fixture.partition->hash().size() == size - deleted);
  for (int i = 20; i < 8'000; ++i) REQUIRE(fixture.Text(KeyOf(i)) == ValueOf(i));
  Quiesce(fixture);
  fixture.core->CheckInvariants();
}

TEST_CASE("AWriteThatFailsKeepsItsSegmentInMemory") {
  StoreFixture fixture(Spilling());
  FaultRule rule;
  rule.operation = DeviceOperation::kWrite;
  rule.error = EIO;
  rule.skip = 10;
  rule.times = 1'000'000;
  fixture.device->AddRule(rule);
  int put = 0;
  StatusCode code = StatusCode::kOk;
  for (; put < 8'000 && code == StatusCode::kOk; ++put) {
    code = fixture.Put(KeyOf(put), ValueOf(put)).code;
    fixture.core->BackgroundSlice(1'000'000);
    fixture.core->Poll();
  }
  // Memory is full, and no wait could help.
  REQUIRE(code == StatusCode::kResourceExhausted);
  CHECK(Counters(fixture).failed_writes >= 1);
  for (int i = 0; i < put - 1; ++i) REQUIRE(fixture.Text(KeyOf(i)) == ValueOf(i));
  fixture.core->CheckInvariants();
}

// Compaction must not copy records that it cannot trust.
TEST_CASE("ADamagedSegmentIsNotCompacted") {
  StoreFixture fixture(Spilling(48, 128));
  PutAll(fixture, 0, 6'000);
  Quiesce(fixture);
  FaultRule rule;
  rule.operation = DeviceOperation::kRead;
  rule.times = 1'000'000;
  for (int i = 0; i < 6'000; ++i) {
    if (i % 4 != 0) REQUIRE(fixture.Delete(KeyOf(i)).code == StatusCode::kOk);
  }
  fixture.device->AddRule(rule);
  for (int i = 10'000; i < 14'000; ++i) (void)fixture.Put(KeyOf(i), ValueOf(i));
  Quiesce(fixture);
  fixture.device->ClearRules();
  for (int i = 0; i < 6'000; i += 4) REQUIRE(fixture.Text(KeyOf(i)) == ValueOf(i));
  fixture.core->CheckInvariants();
}

// Its index has doubled often enough to read the keys of all records again.
TEST_CASE("AnIndexThatReadsKeysAgainLeavesTheDeviceToOperations") {
  constexpr int kRecords = 100'000;
  constexpr std::uint64_t kTurns = 400;
  StoreFixture fixture(Spilling(48, 512));
  std::uint64_t turns = 0;
  // 100 us each; every tenth begins with an operation that meets a record on the device.
  const auto turn = [&] {
    fixture.clock.AdvanceNs(100'000);
    if (++turns % 10 == 0) {
      const std::string key = KeyOf(static_cast<int>(turns * 7'919 % kRecords));
      (void)fixture.store->Get(AsBytes(key), fixture.Hash(key), fixture.core->NowMs());
      if (fixture.core->blocked() && fixture.core->TakeLost() == StatusCode::kOk) {
        fixture.core->Fetch([] {});
      }
    }
    Work(fixture);
  };
  for (int i = 0; i < kRecords; ++i) {
    REQUIRE(fixture.Put(KeyOf(i), "value").code == StatusCode::kOk);
    if (i % 64 == 0) turn();
  }
  REQUIRE(Counters(fixture).spilled_segments > 0);
  const std::uint64_t before = Counters(fixture).reads;
  for (std::uint64_t i = 0; i < kTurns; ++i) turn();
  const std::uint64_t reads = Counters(fixture).reads - before;
  // 40 of them the operations'. Without rests there are 1,140, with them 170.
  CHECK(reads > 60);
  CHECK(reads < 500);
}

}  // namespace
}  // namespace tidepool::storage
