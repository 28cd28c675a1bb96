// Compaction and the expiry sweep.
#include "storage/compactor.h"

#include <catch2/catch.hpp>

#include "tests/storage/store_fixture.h"

namespace tidepool::storage {
namespace {

std::string KeyOf(int i) { return "key" + std::to_string(i); }

TEST_CASE("OverwritesForeverFitBoundedMemory") {
  StoreFixture fixture(TinyStore(256 * 4096));
  const std::uint64_t seed = TestSeed();
  INFO("TP_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  // Live data of about half the memory, written 60 times over. Sizes differ, so no update is in
  // place.
  constexpr int kKeys = 900;
  std::vector<int> last(kKeys, -1);
  for (int i = 0; i < 60 * kKeys; ++i) {
    const int key = static_cast<int>(random() % kKeys);
    const std::size_t bytes = 300 + random() % 400;
    REQUIRE(fixture.Put(KeyOf(key), std::string(bytes, static_cast<char>(i))).code ==
            StatusCode::kOk);
    last[static_cast<std::size_t>(key)] = i;
    if (i % 50 == 0) fixture.core->BackgroundSlice(0);
    if (i % 5'000 == 0) fixture.core->CheckInvariants();
  }
  for (int key = 0; key < kKeys; ++key) {
    const int i = last[static_cast<std::size_t>(key)];
    if (i >= 0) REQUIRE(fixture.Text(KeyOf(key))[0] == static_cast<char>(i));
  }
  const MemoryUsage usage = fixture.core->usage();
  REQUIRE(usage.used_bytes <= usage.limit_bytes);
  REQUIRE(fixture.core->counters().compacted_segments > 100);
}

TEST_CASE("OverwritesForeverWithoutBackgroundWorkFitToo") {
  StoreFixture fixture(TinyStore(256 * 4096));
  for (int i = 0; i < 40'000; ++i) {
    REQUIRE(fixture.Put(KeyOf(i * 7 % 900), std::string(300 + i % 300, 'v')).code ==
            StatusCode::kOk);
  }
  fixture.core->CheckInvariants();
}

TEST_CASE("DeletedDataComesBackAsFreeMemory") {
  StoreFixture fixture(TinyStore(512 * 4096));
  for (int i = 0; i < 3'000; ++i) fixture.Put(KeyOf(i), std::string(400, 'v'));
  const std::uint64_t full = fixture.core->usage().segment_bytes;
  for (int i = 0; i < 3'000; ++i) {
    if (i % 10 != 0) fixture.Delete(KeyOf(i));
  }
  fixture.Settle();
  REQUIRE(fixture.core->usage().segment_bytes < full / 3);
  for (int i = 0; i < 3'000; i += 10) REQUIRE(fixture.Text(KeyOf(i)) == std::string(400, 'v'));
  fixture.core->CheckInvariants();
}

TEST_CASE("CompactionKeepsVersionsFlagsAndExpiry") {
  StoreFixture fixture(TinyStore(60 * 4096));
  fixture.Add("counter", 7);
  PutOptions options;
  options.ttl_ms = 1'000'000;
  fixture.Put("expiring", "value", options);
  const Lsn version = fixture.Get("expiring").version;
  const std::uint64_t location = fixture.Get("expiring").location;
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000 && fixture.Get("expiring").location == location; ++i) {
    // In an order that leaves each segment partly alive.
    fixture.Put(KeyOf(static_cast<int>(random() % 300)), std::string(300 + i % 200, 'v'));
    fixture.core->BackgroundSlice(0);
  }
  REQUIRE(fixture.Get("expiring").location != location);
  REQUIRE(fixture.Get("expiring").version == version);
  REQUIRE(fixture.Ttl("expiring").result == 1'000'000);
  REQUIRE(fixture.Add("counter", 0).result == 7);
}

TEST_CASE("ShortSlicesMakeProgressBetweenOperations") {
  StoreFixture fixture(TinyStore(256 * 4096));
  for (int i = 0; i < 1'500; ++i) fixture.Put(KeyOf(i), std::string(400, 'v'));
  for (int i = 0; i < 1'500; i += 2) fixture.Delete(KeyOf(i));
  int slices = 0;
  while (fixture.core->BackgroundSlice(0) && slices < 100'000) {
    ++slices;
    // Changes in the middle of a victim.
    fixture.Put(KeyOf(1 + slices * 2 % 1'500), std::string(300 + slices % 100, 'w'));
    if (slices % 64 == 0) fixture.core->CheckInvariants();
  }
  REQUIRE(slices > 10);
  fixture.core->CheckInvariants();
}

TEST_CASE("SealedSegmentWithAnUnusedEndIsNotCopiedForEver") {
  StoreFixture fixture(TinyStore(64 * 8192, 8192));
  // Each record takes just over half a segment: half of each segment stays unused, and no byte is
  // dead.
  for (int i = 0; i < 8; ++i) fixture.Put(KeyOf(i), std::string(4'096, 'v'));
  fixture.Settle();
  REQUIRE(fixture.core->counters().compacted_segments == 0);
}

// A full store whose compaction examines 4 segments at a time, without an index that grows.
StoreOptions SmallSampleOptions() {
  StoreOptions options = TinyStore(96 * 4096);
  options.core.buckets_initial = 1'024;
  options.core.victim_sample_segments = 4;
  return options;
}

int FillUp(StoreFixture& fixture) {
  int count = 0;
  while (fixture.Put(KeyOf(count), std::string(300, 'v')).code == StatusCode::kOk) ++count;
  REQUIRE(count > 400);
  return count;
}

TEST_CASE("PutFindsWhatCanBeWonBeyondTheFirstSample") {
  StoreFixture fixture(SmallSampleOptions());
  const int count = FillUp(fixture);
  // Half of each of the segments that come last in the order of looking.
  for (int i = count - 200; i < count - 50; i += 2) fixture.Delete(KeyOf(i));
  REQUIRE(fixture.Put("another", std::string(1'500, 'v')).code == StatusCode::kOk);
  fixture.core->CheckInvariants();
}

TEST_CASE("BackgroundCompactionLooksAtAllSegmentsBeforeItStops") {
  StoreFixture fixture(SmallSampleOptions());
  const int count = FillUp(fixture);
  for (int i = count - 200; i < count - 50; i += 2) fixture.Delete(KeyOf(i));
  const std::uint64_t full = fixture.core->usage().segment_bytes;
  fixture.Settle();
  REQUIRE(fixture.core->counters().compacted_segments >= 10);
  REQUIRE(fixture.core->usage().segment_bytes < full);
  // The rest is not worth moving, and the search for it ends.
  const std::uint64_t settled = fixture.core->counters().compacted_segments;
  fixture.Settle();
  REQUIRE(fixture.core->counters().compacted_segments == settled);
  fixture.core->CheckInvariants();
}

TEST_CASE("BackgroundCompactionLooksAgainWhenLessIsWorthMoving") {
  StoreOptions options = TinyStore(96 * 4096);
  options.core.buckets_initial = 1'024;
  StoreFixture fixture(options);
  // Two fifths of every segment die: less than is wanted while there is memory.
  for (int i = 0; i < 400; ++i) fixture.Put(KeyOf(i), std::string(300, 'v'));
  for (int i = 0; i < 400; ++i) {
    if (i % 5 < 2) fixture.Delete(KeyOf(i));
  }
  fixture.Settle();
  REQUIRE(fixture.core->counters().compacted_segments == 0);
  // An upload takes most of the rest: memory is short, and nothing has died meanwhile.
  const MemoryUsage usage = fixture.core->usage();
  const std::uint64_t left = usage.limit_bytes - usage.reserve_bytes - usage.used_bytes;
  ValueWriter writer = ValueWriter::Begin(*fixture.core, left - 8 * 4096).value();
  const std::string value(left - 8 * 4096, 'u');
  REQUIRE(writer.Write(0, AsBytes(value)) == StatusCode::kOk);
  fixture.Settle();
  REQUIRE(fixture.core->counters().compacted_segments >= 5);
  fixture.core->CheckInvariants();
}

TEST_CASE("SweepRemovesWhatNobodyAsksFor") {
  StoreFixture fixture(TinyStore(256 * 4096));
  PutOptions options;
  for (int i = 0; i < 1'000; ++i) {
    options.ttl_ms = i % 2 == 0 ? 100 : 100'000'000;
    fixture.Put(KeyOf(i), std::string(200, 'v'), options);
  }
  fixture.AdvanceMs(99);
  fixture.Settle();
  REQUIRE(fixture.store->size() == 1'000);
  fixture.AdvanceMs(1);
  fixture.Settle();
  REQUIRE(fixture.store->size() == 500);
  REQUIRE(fixture.core->counters().expired_records == 500);
  fixture.core->CheckInvariants();
}

// A full store with tombstones. One record in nine expires, and so do about 40 large records behind
// `dense_from`. Compaction would only take their segments, while the tombstones of the sweep use up
// the reserve.
void SweepDenseSegments(int dense_from) {
  StoreOptions options = TinyStore(96 * 4096);
  options.core.buckets_initial = 2'048;
  options.partition.tombstones = true;
  StoreFixture fixture(options);
  // The stream of relocated records gets an open segment with room.
  for (int i = 0; i < 400; ++i) fixture.Put("old" + std::to_string(i), "v");
  for (int i = 0; i < 400; ++i) {
    if (i % 8 != 0) fixture.Delete("old" + std::to_string(i));
  }
  fixture.Settle();
  REQUIRE(fixture.core->counters().compacted_segments > 0);

  const auto dense = [&](int i) { return i >= dense_from && i < dense_from + 45 && i % 9 != 0; };
  PutOptions expiring;
  expiring.ttl_ms = 100;
  const auto put = [&](int i) {
    return fixture
        .Put(KeyOf(i), dense(i) ? std::string(350, 'v') : "v",
             dense(i) || i % 9 == 4 ? expiring : PutOptions())
        .code;
  };
  int count = 0;
  while (put(count) == StatusCode::kOk) ++count;
  REQUIRE(count > dense_from + 45);
  fixture.AdvanceMs(100);
  fixture.Settle();
  fixture.core->CheckInvariants();
  for (int i = 0; i < count; ++i) {
    const bool gone = dense(i) || i % 9 == 4;
    REQUIRE(fixture.Text(KeyOf(i)) == (gone ? "<NOT_FOUND>" : "v"));
  }
}

TEST_CASE("SweepOfAFullStoreWithTombstonesReadsNothingThatMoved") {
  for (int dense_from = 3'000; dense_from < 3'400; dense_from += 40) {
    INFO(dense_from);
    SweepDenseSegments(dense_from);
  }
}

TEST_CASE("SweepComesAgainForWhatExpiresLater") {
  StoreFixture fixture;
  PutOptions options;
  for (int i = 0; i < 50; ++i) {
    options.ttl_ms = static_cast<std::uint64_t>(1'000 * (i + 1));
    fixture.Put(KeyOf(i), "v", options);
  }
  for (std::uint64_t left = 50; left > 0;) {
    fixture.AdvanceMs(5'000);
    fixture.Settle();
    left -= 5;
    REQUIRE(fixture.store->size() == left);
  }
}

TEST_CASE("SweepHonoursAnExpiryThatWasSetInPlace") {
  StoreFixture fixture;
  PutOptions options;
  options.ttl_ms = 1'000'000;
  fixture.Put("key", "value", options);
  fixture.Expire("key", 10);
  fixture.AdvanceMs(10);
  fixture.Settle();
  REQUIRE(fixture.store->size() == 0);
}

TEST_CASE("SweepSparesARecordWhoseExpiryWasRemoved") {
  StoreFixture fixture;
  PutOptions options;
  options.ttl_ms = 10;
  fixture.Put("key", "value", options);
  fixture.Expire("key", kTtlNone);
  fixture.AdvanceMs(10'000);
  fixture.Settle();
  REQUIRE(fixture.Text("key") == "value");
}

}  // namespace
}  // namespace tidepool::storage
