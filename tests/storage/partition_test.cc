// The only entry to a partition, terms, the guard word, and observers.
#include "storage/partition.h"

#include <catch2/catch.hpp>

#include <map>

#include "tests/storage/store_fixture.h"

namespace tidepool::storage {
namespace {

// A possible replica: applies the notified changes, and nothing else.
class Follower : public LogObserver {
 public:
  explicit Follower(Partition& partition) : partition_(partition) {}
  void OnRecord(const LogRecord& record) override {
    REQUIRE(record.lsn > last_);
    last_ = record.lsn;
    ++records_;
    if (record.extent_segments.empty()) partition_.Apply(record);
  }
  int records() const { return records_; }

 private:
  Partition& partition_;
  Lsn last_;
  int records_ = 0;
};

TEST_CASE("FollowerOfTheObserverHoldsTheSameRecordsAndVersions") {
  StoreFixture leader;
  StoreFixture follower;
  Follower observer(*follower.partition);
  leader.partition->AddObserver(&observer);
  leader.Put("a", "1");
  leader.Put("a", "2");
  leader.Put("b", "other");
  leader.Delete("b");
  leader.Add("n", 5);
  leader.Add("n", -2);
  leader.Append("log", "x");
  leader.Append("log", "yz");
  leader.Swap("a", "2", "three");
  leader.Expire("a", 1000);
  PutOptions soon;
  soon.ttl_ms = 5;
  leader.Put("soon", "gone", soon);
  leader.AdvanceMs(5);
  REQUIRE(leader.Get("soon").code == StatusCode::kNotFound);  // Its removal is a record too.
  REQUIRE(observer.records() == 12);
  REQUIRE(follower.store->size() == leader.store->size());
  for (const char* key : {"a", "b", "n", "log", "soon"}) {
    REQUIRE(follower.Text(key) == leader.Text(key));
    REQUIRE(follower.Get(key).version == leader.Get(key).version);
    REQUIRE(follower.Get(key).value_flags == leader.Get(key).value_flags);
  }
  REQUIRE(follower.partition->last_lsn() == leader.partition->last_lsn());
}

TEST_CASE("RefusedOperationsAreNotSeenByObservers") {
  StoreFixture fixture;
  StoreFixture other;
  Follower observer(*other.partition);
  fixture.partition->AddObserver(&observer);
  PutOptions options;
  options.condition = PutCondition::kIfPresent;
  fixture.Put("a", "1", options);
  fixture.Delete("a");
  fixture.Get("a");
  REQUIRE(observer.records() == 0);
  fixture.partition->RemoveObserver(&observer);
  fixture.Put("a", "1");
  REQUIRE(observer.records() == 0);
}

TEST_CASE("SetTermMakesGreaterVersions") {
  StoreFixture fixture;
  const Lsn before = fixture.Put("a", "1").version;
  fixture.partition->SetTerm(Term(9));
  const Lsn after = fixture.Put("a", "2").version;
  REQUIRE(after > before);
  REQUIRE(after.term() == Term(9));
  REQUIRE(after.counter() == 1);
}

TEST_CASE("GuardShowsEachServingEpochBusyAndGone") {
  StoreFixture fixture;
  const std::uint64_t first = fixture.partition->guard();
  REQUIRE((first & kGuardBusy) == 0);
  fixture.partition->SetTerm(Term(2));
  const std::uint64_t second = fixture.partition->guard();
  REQUIRE(ServingEpochOf(second) != ServingEpochOf(first));
  fixture.partition->CloseGuard();
  REQUIRE(fixture.partition->guard() == kGuardGone);
  fixture.partition->SetBusy(true);  // A chain of a partition with a doubtful lease.
  fixture.partition->SetBusy(false);
  REQUIRE(fixture.partition->guard() == kGuardGone);
  fixture.partition->SetTerm(Term(2));
  REQUIRE(ServingEpochOf(fixture.partition->guard()) != ServingEpochOf(first));
  REQUIRE(ServingEpochOf(fixture.partition->guard()) != ServingEpochOf(second));
}

// A reader that looks at the guard before and after a batch only has read in the middle of it.
TEST_CASE("GuardIsNeverAgainWhatItWasBeforeABatch") {
  StoreFixture fixture;
  const std::uint64_t before = fixture.partition->guard();
  fixture.partition->SetBusy(true);
  REQUIRE(fixture.partition->guard() == (before | kGuardBusy));
  fixture.partition->SetBusy(false);
  REQUIRE(fixture.partition->guard() != before);
  REQUIRE((fixture.partition->guard() & kGuardBusy) == 0);
  REQUIRE(ServingEpochOf(fixture.partition->guard()) == ServingEpochOf(before));
}

TEST_CASE("ApplyOnAFullStoreReturnsNoVersionAndChangesNothing") {
  StoreFixture fixture(TinyStore(32 * 4096));
  LogRecord record;
  record.partition = fixture.partition->id();
  const std::string value(500, 'v');
  record.value = AsBytes(value);
  record.value_bytes = value.size();
  std::string key;
  for (int i = 0;; ++i) {
    key = "key" + std::to_string(i);
    record.key = AsBytes(key);
    record.hash = StoreFixture::Hash(key);
    const Lsn last = fixture.partition->last_lsn();
    if (fixture.partition->Apply(record).value() != 0) continue;
    REQUIRE(fixture.partition->last_lsn() == last);
    break;
  }
  REQUIRE(fixture.Get(key).code == StatusCode::kNotFound);
  fixture.core->CheckInvariants();
}

TEST_CASE("TombstonesAreKeptUntilTheFloorPassesThem") {
  StoreOptions options = TinyStore(18 * 4096);
  options.partition.tombstones = true;
  StoreFixture fixture(options);
  for (int i = 0; i < 100; ++i) fixture.Put("key" + std::to_string(i), "value");
  for (int i = 0; i < 100; ++i) fixture.Delete("key" + std::to_string(i));
  const std::uint64_t tombstones = fixture.core->usage().tombstone_bytes;
  REQUIRE(tombstones >= 100 * 40);
  // Overwrites force compaction; the tombstones stay.
  const auto overwrite = [&](int times) {
    for (int i = 0; i < times; ++i) {
      // In an order that leaves each segment partly alive.
      const std::string key = "other" + std::to_string(i * i % 23);
      REQUIRE(fixture.Put(key, std::string(300 + static_cast<std::size_t>(i % 100), 'o')).code ==
              StatusCode::kOk);
    }
  };
  overwrite(2'000);
  fixture.Settle();
  REQUIRE(fixture.core->counters().compacted_segments > 0);
  REQUIRE(fixture.core->usage().tombstone_bytes == tombstones);
  fixture.core->CheckInvariants();
  fixture.partition->DropTombstonesBelow(Lsn(fixture.partition->last_lsn().value() + 1));
  overwrite(4'000);
  fixture.Settle();
  REQUIRE(fixture.core->usage().tombstone_bytes < tombstones);
  fixture.core->CheckInvariants();
}

}  // namespace
}  // namespace tidepool::storage
