// Values with segments of their own: they leave memory, and come back as a whole before they are
// read.
#include <catch2/catch.hpp>
#include <functional>
#include <vector>

#include "tests/storage/spill/spill_fixture.h"

namespace tidepool::storage {
namespace {

// Returns a unique value of some three segments, with a partly filled last segment.
std::string LargeOf(int i) {
  std::string value(150'000, static_cast<char>('a' + i % 26));
  for (std::size_t at = 0; at < value.size(); at += 1'000) {
    value.replace(at, 8, std::to_string(10'000'000 + i));
  }
  return value;
}

void PutLarge(StoreFixture& fixture, int begin, int end) {
  for (int i = begin; i < end; ++i) {
    REQUIRE(fixture.Put(KeyOf(i), LargeOf(i)).code == StatusCode::kOk);
    Work(fixture);
  }
}

TEST_CASE("LargeValuesThatDoNotFitAreAllThere") {
  StoreFixture fixture(Spilling(64, 256));
  PutLarge(fixture, 0, 60);
  Quiesce(fixture);
  fixture.core->CheckInvariants();
  CHECK(Counters(fixture).spilled_segments > 60);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 60; ++i) REQUIRE(fixture.Text(KeyOf(i)) == LargeOf(i));
    fixture.core->CheckInvariants();
  }
  // A value that came back leaves again without a write.
  CHECK(Counters(fixture).spilled_segments < 250);
  CHECK(fixture.fetches > 60);
}

TEST_CASE("OfALargeValueNothingIsReadThatIsNotAskedFor") {
  StoreFixture fixture(Spilling(64, 256));
  PutLarge(fixture, 0, 60);
  Quiesce(fixture);
  // Each reads its record at most, which has less than half a segment of the value.
  const auto reads_record_only = [&](auto&& operation) {
    const std::uint64_t read_bytes = Counters(fixture).read_bytes;
    operation();
    REQUIRE(Counters(fixture).read_bytes - read_bytes <= kBlockBytes / 2 + 2 * 4096);
  };
  for (int i = 0; i < 20; ++i) {
    reads_record_only([&] {
      const HashOutcome outcome = fixture.Run([&] {
        return fixture.store->Contains(AsBytes(KeyOf(i)), fixture.Hash(KeyOf(i)),
                                       fixture.core->NowMs());
      });
      REQUIRE(outcome.value_bytes == 150'000);
    });
  }
  for (int i = 0; i < 20; ++i) {
    reads_record_only([&] { REQUIRE(fixture.Put(KeyOf(i), "small").code == StatusCode::kOk); });
  }
  for (int i = 20; i < 40; ++i) {
    reads_record_only([&] { REQUIRE(fixture.Delete(KeyOf(i)).code == StatusCode::kOk); });
  }
  // Each runs again at most once.
  CHECK(fixture.fetches <= 60);
  Quiesce(fixture);
  fixture.core->CheckInvariants();
  for (int i = 40; i < 60; ++i) REQUIRE(fixture.Text(KeyOf(i)) == LargeOf(i));
}

TEST_CASE("AnAppendToALargeValueOnTheDeviceKeepsAllOfIt") {
  StoreFixture fixture(Spilling(64, 256));
  PutLarge(fixture, 0, 60);
  for (int round = 1; round <= 3; ++round) {
    for (int i = 0; i < 60; i += 7) {
      REQUIRE(fixture.Append(KeyOf(i), std::string(20'000, 'x')).code == StatusCode::kOk);
      Work(fixture);
    }
    PutLarge(fixture, 100, 130);
    fixture.core->CheckInvariants();
    for (int i = 0; i < 60; ++i) {
      const auto appended = static_cast<std::size_t>(i % 7 == 0 ? 20'000 * round : 0);
      REQUIRE(fixture.Text(KeyOf(i)) == LargeOf(i) + std::string(appended, 'x'));
    }
  }
}

TEST_CASE("ADroppedPartitionGivesTheSlotsOfItsLargeValuesBackUnread") {
  StoreFixture fixture(Spilling(64, 256));
  PutLarge(fixture, 0, 60);
  Quiesce(fixture);
  const std::uint64_t reads = Counters(fixture).reads;
  fixture.core->DropPartition(fixture.partition->id());
  Quiesce(fixture);
  fixture.core->CheckInvariants();
  CHECK(fixture.volume->usage().slots_used == 0);
  CHECK(Counters(fixture).reads == reads);
}

TEST_CASE("ADamagedLargeValueIsNeverServed") {
  StoreFixture fixture(Spilling(64, 256));
  PutLarge(fixture, 0, 60);
  Quiesce(fixture);
  FaultRule rule;  // Flips a bit of the read bytes.
  rule.operation = DeviceOperation::kRead;
  rule.times = 1'000'000;
  fixture.device->AddRule(rule);
  int lost = 0;
  for (int i = 0; i < 30; ++i) {
    fixture.lost = StatusCode::kOk;
    const HashOutcome outcome = fixture.Get(KeyOf(i));
    if (fixture.lost == StatusCode::kOk) {
      REQUIRE(fixture.Text(outcome) == LargeOf(i));
    } else {
      REQUIRE(fixture.lost == StatusCode::kDataLoss);
      ++lost;
    }
  }
  CHECK(lost > 15);
  fixture.device->ClearRules();
  for (int i = 0; i < 60; ++i) REQUIRE(fixture.Text(KeyOf(i)) == LargeOf(i));
  fixture.core->CheckInvariants();
}

// More of them than memory holds, while the device is full, too: each gets its turn.
TEST_CASE("LargeValuesThatAreWantedTogetherAllComeBack") {
  StoreFixture fixture(Spilling(64, 256));
  int count = 0;
  while (fixture.Put(KeyOf(count), LargeOf(count)).code == StatusCode::kOk) {
    Work(fixture);
    ++count;
  }
  Quiesce(fixture);
  REQUIRE(count > 60);
  for (int round = 0; round < 5; ++round) {
    int left = count;
    std::vector<std::function<void()>> gets(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      const int key = i * 7 % count;
      auto& get = gets[static_cast<std::size_t>(i)];
      get = [&fixture, &left, &get, key] {
        const HashOutcome outcome = fixture.store->Get(
            AsBytes(KeyOf(key)), fixture.Hash(KeyOf(key)), fixture.core->NowMs());
        if (fixture.core->blocked()) {
          REQUIRE(fixture.core->TakeLost() == StatusCode::kOk);
          return fixture.core->Fetch(get);
        }
        REQUIRE(fixture.Text(outcome) == LargeOf(key));
        --left;
      };
      get();
    }
    for (int turn = 0; left > 0 && turn < 100'000; ++turn) Work(fixture);
    REQUIRE(left == 0);
    fixture.core->CheckInvariants();
  }
}

// Pinned values stay in memory. A reader of another value gets an error after a bounded time.
TEST_CASE("AValueThatFindsNoMemoryIsGivenUpAfterAWhile") {
  StoreFixture fixture(Spilling(64, 256));
  PutLarge(fixture, 0, 60);
  Quiesce(fixture);
  std::vector<ValueReader> held;
  int i = 0;
  for (; i < 60; ++i) {
    fixture.lost = StatusCode::kOk;
    bool ran = false;
    HashOutcome outcome;
    const auto get = [&] {
      return fixture.store->Get(AsBytes(KeyOf(i)), fixture.Hash(KeyOf(i)), fixture.core->NowMs());
    };
    outcome = get();
    if (fixture.core->blocked()) {
      // First the record, and then the segments that it names.
      const std::function<void()> again = [&] {
        outcome = get();
        const bool blocked = fixture.core->blocked();
        fixture.lost = blocked ? fixture.core->TakeLost() : StatusCode::kOk;
        if (blocked && fixture.lost == StatusCode::kOk) return fixture.core->Fetch(again);
        if (!blocked) held.push_back(ValueReader::Pin(*fixture.store, outcome));
        ran = true;
      };
      fixture.core->Fetch(again);
      for (int turn = 0; !ran && turn < 10'000; ++turn) {
        Work(fixture);
        if (turn > 1'000) fixture.AdvanceMs(100);
      }
      REQUIRE(ran);
    } else {
      held.push_back(ValueReader::Pin(*fixture.store, outcome));
    }
    if (fixture.lost != StatusCode::kOk) break;
  }
  CHECK(i < 30);
  CHECK(fixture.lost == StatusCode::kResourceExhausted);
  held.clear();
  Quiesce(fixture);
  fixture.core->CheckInvariants();
  for (i = 0; i < 60; ++i) REQUIRE(fixture.Text(KeyOf(i)) == LargeOf(i));
}

}  // namespace
}  // namespace tidepool::storage
