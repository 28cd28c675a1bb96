// Get, put and its conditions, delete, take, expiry at access.
#include "storage/hash_store.h"

#include <catch2/catch.hpp>

#include "proto/base/limits.h"
#include "tests/storage/store_fixture.h"

namespace tidepool::storage {
namespace {

PutOptions If(PutCondition condition, Lsn version = {}) {
  PutOptions options;
  options.condition = condition;
  options.if_version = version;
  return options;
}

PutOptions Ttl(std::uint64_t ttl_ms) {
  PutOptions options;
  options.ttl_ms = ttl_ms;
  return options;
}

TEST_CASE("GetOfAbsentKeyIsNotFound") {
  StoreFixture fixture;
  REQUIRE(fixture.Get("a").code == StatusCode::kNotFound);
  REQUIRE(fixture.store->size() == 0);
}

TEST_CASE("PutThenGetReturnsValueAndVersion") {
  StoreFixture fixture;
  const HashOutcome put = fixture.Put("key", "value");
  REQUIRE(put.code == StatusCode::kOk);
  REQUIRE(put.previous == 0);
  REQUIRE(put.version.term() == Term(1));
  const HashOutcome got = fixture.Get("key");
  REQUIRE(AsText(got.value) == "value");
  REQUIRE(got.version == put.version);
  REQUIRE(fixture.store->size() == 1);
}

TEST_CASE("EmptyKeyAndEmptyValueAreOrdinary") {
  StoreFixture fixture;
  REQUIRE(fixture.Put("", "").code == StatusCode::kOk);
  REQUIRE(fixture.Text("").empty());
  REQUIRE(fixture.Get("").code == StatusCode::kOk);
  REQUIRE(fixture.Delete("").code == StatusCode::kOk);
}

TEST_CASE("KeysOfEveryLengthAreToldApartByTheirLastByte") {
  StoreFixture fixture;
  for (std::size_t length = 1; length < 80; ++length) {
    std::string a(length, 'x');
    std::string b = a;
    b.back() = 'y';
    fixture.Put(a, "a" + std::to_string(length));
    fixture.Put(b, "b" + std::to_string(length));
  }
  for (std::size_t length = 1; length < 80; ++length) {
    std::string key(length, 'x');
    REQUIRE(fixture.Text(key) == "a" + std::to_string(length));
    key.back() = 'y';
    REQUIRE(fixture.Text(key) == "b" + std::to_string(length));
  }
}

TEST_CASE("KeysOfOneHashAreToldApartByTheirBytes") {
  StoreOptions options;
  options.core.hash_mask = 0;
  StoreFixture fixture(options);
  for (int i = 0; i < 100; ++i) fixture.Put("k" + std::to_string(i), std::to_string(i));
  for (int i = 0; i < 100; ++i) REQUIRE(fixture.Text("k" + std::to_string(i)) == std::to_string(i));
  REQUIRE(fixture.Get("k100").code == StatusCode::kNotFound);
}

TEST_CASE("LargestKeyIsTakenAndALargerOneRefused") {
  StoreFixture fixture;
  REQUIRE(fixture.Put(std::string(limits::kKeyBytesMax, 'k'), "v").code == StatusCode::kOk);
  REQUIRE(fixture.Put(std::string(limits::kKeyBytesMax + 1, 'k'), "v").code ==
          StatusCode::kInvalidArgument);
}

TEST_CASE("OverwriteReplacesTheValueAndNamesThePreviousVersion") {
  StoreFixture fixture;
  const HashOutcome first = fixture.Put("key", "a");
  const HashOutcome second = fixture.Put("key", "a longer value than before");
  REQUIRE(second.previous == first.version.value());
  REQUIRE(second.version > first.version);
  REQUIRE(fixture.Text("key") == "a longer value than before");
  REQUIRE(fixture.store->size() == 1);
}

TEST_CASE("SmallValueOfTheSameSizeIsOverwrittenInPlace") {
  StoreFixture fixture;
  fixture.Put("key", "aaaa");
  const std::uint64_t location = fixture.Get("key").location;
  const std::uint64_t live = fixture.core->usage().live_bytes;
  fixture.Put("key", "bbbb");
  REQUIRE(fixture.Get("key").location == location);
  REQUIRE(fixture.Text("key") == "bbbb");
  REQUIRE(fixture.core->usage().live_bytes == live);
}

TEST_CASE("InPlaceUpdateLeavesAnEvenSequenceThatHasGrown") {
  StoreFixture fixture;
  fixture.Put("key", "aaaa");
  fixture.Put("key", "bbbb");
  std::uint32_t sequence = 0;
  std::memcpy(&sequence, fixture.store->KeyAt(fixture.Get("key").location).data() - 28, 4);
  REQUIRE(sequence == 2);
}

TEST_CASE("ValueAbove256BytesIsNotOverwrittenInPlace") {
  StoreFixture fixture;
  fixture.Put("key", std::string(257, 'a'));
  const std::uint64_t location = fixture.Get("key").location;
  fixture.Put("key", std::string(257, 'b'));
  REQUIRE(fixture.Get("key").location != location);
}

TEST_CASE("NamespaceWithoutInPlaceUpdatesAppends") {
  StoreOptions options;
  options.partition.update_in_place = false;
  StoreFixture fixture(options);
  fixture.Put("key", "aaaa");
  const std::uint64_t location = fixture.Get("key").location;
  fixture.Put("key", "bbbb");
  REQUIRE(fixture.Get("key").location != location);
}

TEST_CASE("PutIfAbsentRefusesAPresentKey") {
  StoreFixture fixture;
  REQUIRE(fixture.Put("key", "a", If(PutCondition::kIfAbsent)).code == StatusCode::kOk);
  const HashOutcome refused = fixture.Put("key", "b", If(PutCondition::kIfAbsent));
  REQUIRE(refused.code == StatusCode::kAlreadyExists);
  REQUIRE(refused.version == fixture.Get("key").version);
  REQUIRE(fixture.Text("key") == "a");
}

TEST_CASE("PutIfPresentRefusesAnAbsentKey") {
  StoreFixture fixture;
  REQUIRE(fixture.Put("key", "a", If(PutCondition::kIfPresent)).code == StatusCode::kNotFound);
  REQUIRE(fixture.Get("key").code == StatusCode::kNotFound);
  fixture.Put("key", "a");
  REQUIRE(fixture.Put("key", "b", If(PutCondition::kIfPresent)).code == StatusCode::kOk);
}

TEST_CASE("PutIfVersionTakesOnlyThePresentVersion") {
  StoreFixture fixture;
  const Lsn version = fixture.Put("key", "a").version;
  REQUIRE(fixture.Put("key", "b", If(PutCondition::kIfVersion, version)).code == StatusCode::kOk);
  const HashOutcome refused = fixture.Put("key", "c", If(PutCondition::kIfVersion, version));
  REQUIRE(refused.code == StatusCode::kFailedPrecondition);
  REQUIRE(refused.version == fixture.Get("key").version);
  REQUIRE(fixture.Text("key") == "b");
  REQUIRE(fixture.Put("no", "c", If(PutCondition::kIfVersion, version)).code ==
          StatusCode::kNotFound);
}

TEST_CASE("CounterFlagNeedsEightBytes") {
  StoreFixture fixture;
  PutOptions options;
  options.value_flags = kRecordI64;
  REQUIRE(fixture.Put("key", "1234567", options).code == StatusCode::kInvalidArgument);
  REQUIRE(fixture.Put("key", "12345678", options).code == StatusCode::kOk);
  REQUIRE(fixture.Get("key").value_flags == kRecordI64);
  options.value_flags = kRecordI64 | kRecordF64;
  REQUIRE(fixture.Put("key", "12345678", options).code == StatusCode::kInvalidArgument);
  options.value_flags = kRecordExpiry;
  REQUIRE(fixture.Put("key", "12345678", options).code == StatusCode::kInvalidArgument);
}

TEST_CASE("DeleteRemovesTheKeyAndNamesItsVersion") {
  StoreFixture fixture;
  const Lsn version = fixture.Put("key", "a").version;
  const HashOutcome deleted = fixture.Delete("key");
  REQUIRE(deleted.code == StatusCode::kOk);
  REQUIRE(deleted.version == version);
  REQUIRE(fixture.Get("key").code == StatusCode::kNotFound);
  REQUIRE(fixture.Delete("key").code == StatusCode::kNotFound);
  REQUIRE(fixture.core->usage().live_bytes == 0);
}

TEST_CASE("DeleteIfVersionSparesANewerValue") {
  StoreFixture fixture;
  const Lsn old = fixture.Put("key", "a").version;
  fixture.Put("key", "b");
  REQUIRE(fixture.Delete("key", old).code == StatusCode::kFailedPrecondition);
  REQUIRE(fixture.Text("key") == "b");
  REQUIRE(fixture.Delete("key", fixture.Get("key").version).code == StatusCode::kOk);
}

TEST_CASE("VersionsGrowAcrossDeleteAndPut") {
  StoreFixture fixture;
  const Lsn first = fixture.Put("key", "a").version;
  fixture.Delete("key");
  REQUIRE(fixture.Put("key", "b").version > first);
}

TEST_CASE("TakeReturnsTheValueAndRemovesTheKey") {
  StoreFixture fixture;
  fixture.Put("key", "value");
  const HashOutcome taken = fixture.Take("key");
  REQUIRE(AsText(taken.value) == "value");
  REQUIRE(fixture.Get("key").code == StatusCode::kNotFound);
  REQUIRE(fixture.Take("key").code == StatusCode::kNotFound);
}

TEST_CASE("TakenValueStaysReadableThoughItsSegmentDied") {
  StoreFixture fixture(TinyStore(64 * 4096));
  const std::string value(1900, 'v');
  fixture.Put("a", value);
  fixture.Put("b", value);  // Fills the segment.
  fixture.Put("c", value);  // Seals it.
  fixture.Delete("b");
  const HashOutcome taken = fixture.Take("a");
  REQUIRE(AsText(taken.value) == value);
}

TEST_CASE("RecordExpiresAtItsTime") {
  StoreFixture fixture;
  fixture.Put("key", "a", Ttl(100));
  fixture.AdvanceMs(99);
  REQUIRE(fixture.Get("key").code == StatusCode::kOk);
  REQUIRE(fixture.Ttl("key").result == 1);
  fixture.AdvanceMs(1);
  REQUIRE(fixture.Get("key").code == StatusCode::kNotFound);
  REQUIRE(fixture.store->size() == 0);
}

TEST_CASE("NamespaceTimeToLiveIsTheDefault") {
  StoreOptions options;
  options.partition.ttl_ms = 50;
  StoreFixture fixture(options);
  fixture.Put("default", "a");
  fixture.Put("none", "a", Ttl(kTtlNone));
  fixture.Put("own", "a", Ttl(200));
  fixture.AdvanceMs(60);
  REQUIRE(fixture.Get("default").code == StatusCode::kNotFound);
  REQUIRE(fixture.Ttl("none").result == kTtlNone);
  REQUIRE(fixture.Ttl("own").result == 140);
}

TEST_CASE("OverwriteWithKeepTakesOverTheExpiry") {
  StoreFixture fixture;
  fixture.Put("key", "a", Ttl(100));
  fixture.AdvanceMs(40);
  fixture.Put("key", "b", Ttl(kTtlKeep));
  REQUIRE(fixture.Ttl("key").result == 60);
  fixture.Put("key", "c");
  REQUIRE(fixture.Ttl("key").result == kTtlNone);
}

TEST_CASE("PutIfAbsentTakesTheKeyOfAnExpiredRecord") {
  StoreFixture fixture;
  const Lsn old = fixture.Put("key", "a", Ttl(10)).version;
  fixture.AdvanceMs(10);
  const HashOutcome put = fixture.Put("key", "b", If(PutCondition::kIfAbsent));
  REQUIRE(put.code == StatusCode::kOk);
  REQUIRE(put.previous == 0);
  REQUIRE(put.version > old);
}

TEST_CASE("TimeToLiveBeyondTheEndOfTimeIsNone") {
  StoreFixture fixture;
  fixture.Put("key", "a", Ttl(~0ull - 5));
  REQUIRE(fixture.Ttl("key").result == kTtlNone);
}

TEST_CASE("FullStoreRefusesPutsAndStillReadsDeletesAndUpdatesInPlace") {
  StoreFixture fixture(TinyStore(32 * 4096));
  int stored = 0;
  while (fixture.Put("key" + std::to_string(stored), std::string(200, 'v')).code ==
         StatusCode::kOk) {
    ++stored;
  }
  REQUIRE(stored > 100);
  const HashOutcome refused = fixture.Put("new", std::string(200, 'n'));
  REQUIRE(refused.code == StatusCode::kResourceExhausted);
  REQUIRE(fixture.Get("new").code == StatusCode::kNotFound);
  REQUIRE(fixture.core->counters().refused_for_memory >= 2);
  // An overwrite that needs room is refused and leaves the value.
  REQUIRE(fixture.Put("key0", std::string(300, 'w')).code == StatusCode::kResourceExhausted);
  REQUIRE(fixture.Text("key0") == std::string(200, 'v'));
  REQUIRE(fixture.Put("key0", std::string(200, 'w')).code == StatusCode::kOk);
  REQUIRE(fixture.Text("key0") == std::string(200, 'w'));
  fixture.core->CheckInvariants();
  for (int i = 0; i < stored; i += 2) {
    REQUIRE(fixture.Delete("key" + std::to_string(i)).code == StatusCode::kOk);
  }
  // Half is dead: compaction makes room for it again.
  for (int i = 0; i < stored / 4; ++i) {
    REQUIRE(fixture.Put("again" + std::to_string(i), std::string(200, 'a')).code ==
            StatusCode::kOk);
  }
  fixture.core->CheckInvariants();
}

TEST_CASE("PrefetchStagesOfAbsentAndPresentKeysAreHarmless") {
  StoreFixture fixture;
  fixture.Put("key", "value");
  for (const char* key : {"key", "absent"}) {
    fixture.store->PrefetchBucket(StoreFixture::Hash(key));
    fixture.store->PrefetchRecord(StoreFixture::Hash(key));
  }
  REQUIRE(fixture.Text("key") == "value");
}

TEST_CASE("AnIndexIsMadeReadyForTheRecordsThatAreExpected") {
  constexpr std::uint64_t kRecords = 50'000;
  StoreOptions options;
  options.partition.expected_records = kRecords;
  StoreFixture fixture(options);
  fixture.Put("early", "found before and after");
  fixture.Settle();
  REQUIRE(fixture.Text("early") == "found before and after");
  const std::uint64_t made = fixture.store->index_usage().allocated_bytes;
  REQUIRE(made >= kRecords * 64 / 7);  // 7 slots of a bucket.
  for (std::uint64_t i = 1; i < kRecords; ++i) fixture.Put("k" + std::to_string(i), "v");
  // It has not grown but for a few overflow buckets.
  REQUIRE(fixture.store->index_usage().allocated_bytes < made + made / 4);
  for (std::uint64_t i = 1; i < kRecords; ++i) {
    REQUIRE(fixture.Text("k" + std::to_string(i)) == "v");
  }
}

TEST_CASE("AnAbsurdExpectationLeavesTheMemoryToTheRecords") {
  StoreOptions options;
  options.partition.expected_records = 1ull << 60;
  StoreFixture fixture(options);
  fixture.Settle();
  REQUIRE(fixture.store->index_usage().allocated_bytes <= options.memory_bytes / 3);
  const std::string value(1'000, 'v');
  int stored = 0;
  while (fixture.Put("k" + std::to_string(stored), value).code == StatusCode::kOk) ++stored;
  REQUIRE(stored > 20'000);  // In 64 MiB.
}

}  // namespace
}  // namespace tidepool::storage
