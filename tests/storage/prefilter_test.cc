// Prefilters beside a partition's records: their answers while keys come and go, their growth, and
// their memory.
#include "storage/prefilter.h"

#include <catch2/catch.hpp>
#include <string>

#include "tests/storage/store_fixture.h"

namespace tidepool::storage {
namespace {

StoreOptions With(PrefilterKind kind, std::uint64_t expected_keys = 0, double rate = 0.01) {
  StoreOptions options;
  options.partition.prefilter = {kind, expected_keys, rate};
  return options;
}

std::string Key(int i) { return "key" + std::to_string(i); }

// Returns the share of absent keys that the filter takes for possible keys.
double RateOf(const AbsentFilter& filter) {
  constexpr int kAsked = 20'000;
  int taken = 0;
  for (int i = 0; i < kAsked; ++i) {
    taken += filter.MayContain(StoreFixture::Hash("other" + std::to_string(i))) ? 1 : 0;
  }
  return static_cast<double>(taken) / kAsked;
}

TEST_CASE("AbsentFilterFollowsTheNumberOfKeys") {
  StoreFixture fixture(With(PrefilterKind::kAbsent));
  const AbsentFilter& filter = *fixture.store->absent_filter();
  REQUIRE(filter.usage().bytes == 4096);
  constexpr int kKeys = 100'000;
  for (int i = 0; i < kKeys; ++i) {
    REQUIRE(fixture.Put(Key(i), "v").code == StatusCode::kOk);
    // Slices that end at once: the filter is made anew beside the puts.
    if (i % 4 == 0) fixture.core->BackgroundSlice(0);
  }
  fixture.Settle();
  fixture.core->CheckInvariants();
  for (int i = 0; i < kKeys; ++i) REQUIRE(filter.MayContain(fixture.Hash(Key(i))));
  REQUIRE(RateOf(filter) < 0.013);
  REQUIRE(filter.usage().keys < 1.02 * kKeys);
  REQUIRE(filter.usage().keys > 0.98 * kKeys);
  // At most made for twice the keys: 10.5 bits each.
  REQUIRE(filter.usage().bytes < 2 * kKeys * 11 / 8 + 65536);
}

TEST_CASE("AbsentFilterForgetsKeysThatWent") {
  StoreFixture fixture(With(PrefilterKind::kAbsent));
  const AbsentFilter& filter = *fixture.store->absent_filter();
  constexpr int kKeys = 50'000;
  for (int i = 0; i < kKeys; ++i) fixture.Put(Key(i), "v");
  fixture.Settle();
  const std::uint64_t bytes = filter.usage().bytes;
  for (int i = 0; i < kKeys - 100; ++i) fixture.Delete(Key(i));
  fixture.Settle();
  fixture.core->CheckInvariants();
  REQUIRE(filter.usage().keys < 2'000);
  REQUIRE(filter.usage().bytes < bytes / 8);
  for (int i = kKeys - 100; i < kKeys; ++i) REQUIRE(filter.MayContain(fixture.Hash(Key(i))));
}

TEST_CASE("AbsentFilterForgetsKeysThatExpired") {
  StoreOptions options = With(PrefilterKind::kAbsent);
  options.partition.ttl_ms = 1000;
  StoreFixture fixture(options);
  for (int i = 0; i < 20'000; ++i) fixture.Put(Key(i), "v");
  fixture.Settle();
  fixture.AdvanceMs(5'000);
  fixture.Settle();
  REQUIRE(fixture.store->size() == 0);
  REQUIRE(fixture.store->absent_filter()->usage().keys == 0);
}

TEST_CASE("AKeyIsContainedThroughoutARebuildThatEndsAtOnceInEachSlice") {
  StoreFixture fixture(With(PrefilterKind::kAbsent));
  const AbsentFilter& filter = *fixture.store->absent_filter();
  for (int i = 0; i < 5'000; ++i) fixture.Put(Key(i), "v");
  // The index grows in the middle of the walk, keys come, go and come back.
  int slices = 0;
  for (int i = 5'000; filter.generation() == 0; ++i, ++slices) {
    fixture.core->BackgroundSlice(0);
    for (int k = 0; k < 20; ++k) fixture.Put(Key(20 * i + k), "v");
    fixture.Delete(Key(i - 5'000));
    fixture.core->CheckInvariants();
    REQUIRE(slices < 10'000);
  }
  REQUIRE(slices > 10);
  fixture.core->CheckInvariants();
}

TEST_CASE("APrefilterIsInTheAccountsUntilItsPartitionIsDroppedAndFreed") {
  const PrefilterKind kind = GENERATE(PrefilterKind::kAbsent, PrefilterKind::kAdmit);
  StoreFixture fixture;
  fixture.Settle();
  const MemoryUsage before = fixture.core->usage();
  PartitionOptions options;
  options.prefilter = {kind, 1'000'000, 0.01};
  Partition* const partition =
      fixture.core->AddPartition(PartitionId(NamespaceId(2), 0), Term(1), options).value();
  const MemoryUsage with = fixture.core->usage();
  REQUIRE(with.index_bytes - before.index_bytes > 1'000'000);
  REQUIRE(with.index_bytes - before.index_bytes < 1'500'000);
  fixture.core->CheckInvariants();
  fixture.core->DropPartition(partition->id());
  fixture.core->CheckInvariants();
  fixture.Settle();
  fixture.core->CheckInvariants();
  REQUIRE(fixture.core->usage().index_bytes == before.index_bytes);
}

TEST_CASE("APrefilterThatDoesNotFitIsMadeSmaller") {
  const PrefilterKind kind = GENERATE(PrefilterKind::kAbsent, PrefilterKind::kAdmit);
  StoreFixture fixture(With(kind, 1'000'000'000));  // 1.3 GB, of 64 MiB.
  REQUIRE(fixture.Put("a", "v").code == StatusCode::kOk);
  REQUIRE(fixture.Text("a") == "v");
  fixture.core->CheckInvariants();
}

TEST_CASE("AbsentFilterGoesOnWhereMemoryIsUsedUp") {
  StoreOptions options = TinyStore(64 * 4096);
  options.partition.prefilter.kind = PrefilterKind::kAbsent;
  StoreFixture fixture(options);
  const AbsentFilter& filter = *fixture.store->absent_filter();
  int stored = 0;
  while (fixture.Put(Key(stored), "").code == StatusCode::kOk) ++stored;
  for (int i = 0; i < 100; ++i) fixture.core->BackgroundSlice(1'000'000);
  fixture.core->CheckInvariants();
  REQUIRE(filter.usage().false_positive_rate > 0.01);
  // And is made anew when there is memory again.
  for (int i = 0; i < stored; ++i) fixture.Delete(Key(i));
  for (int i = 0; i < 20'000; ++i) fixture.core->BackgroundSlice(1'000'000);
  REQUIRE(filter.usage().keys == 0);
  fixture.core->CheckInvariants();
}

TEST_CASE("TheFirstSightingOfAKeyStoresNothing") {
  StoreFixture fixture(With(PrefilterKind::kAdmit, 1'000, 1e-6));
  const Lsn before = fixture.partition->last_lsn();
  const HashOutcome first = fixture.Add("a", 5);
  REQUIRE(first.code == StatusCode::kOk);
  REQUIRE(first.version == Lsn());
  REQUIRE(first.previous == 0);
  REQUIRE(fixture.Get("a").code == StatusCode::kNotFound);
  REQUIRE(fixture.store->size() == 0);
  REQUIRE(fixture.partition->last_lsn() > before);  // A restart loses something.
  const HashOutcome second = fixture.Add("a", 7);
  REQUIRE(second.version != Lsn());
  REQUIRE(second.previous == 0);
  REQUIRE(second.result == 7);
  REQUIRE(fixture.Add("a", 1).previous == 7);
}

TEST_CASE("APutIfAbsentIsASightingAndOtherPutsAreNot") {
  StoreFixture fixture(With(PrefilterKind::kAdmit, 1'000, 1e-6));
  PutOptions if_absent;
  if_absent.condition = PutCondition::kIfAbsent;
  REQUIRE(fixture.Put("a", "1", if_absent).version == Lsn());
  REQUIRE(fixture.Put("a", "2", if_absent).version != Lsn());
  REQUIRE(fixture.Put("a", "3", if_absent).code == StatusCode::kAlreadyExists);
  REQUIRE(fixture.Text("a") == "2");
  REQUIRE(fixture.Put("b", "1").version != Lsn());
  REQUIRE(fixture.Text("b") == "1");
  REQUIRE(fixture.Append("c", "1").version != Lsn());
  // Sighted once stays sighted, also when the record has gone.
  fixture.Delete("a");
  REQUIRE(fixture.Put("a", "4", if_absent).version != Lsn());
}

TEST_CASE("AFailedUpdateIsNoSighting") {
  StoreFixture fixture(With(PrefilterKind::kAdmit, 1'000, 1e-6));
  const auto update = [&](UpdateKind kind, CounterType type) {
    return fixture.store->FetchUpdate(AsBytes("a"), fixture.Hash("a"), kind, type, 1,
                                      fixture.core->NowMs());
  };
  REQUIRE(update(UpdateKind::kXor, CounterType::kF64).code == StatusCode::kInvalidArgument);
  REQUIRE(update(UpdateKind::kAdd, CounterType::kI64).version == Lsn());
  REQUIRE(update(UpdateKind::kAdd, CounterType::kI64).version != Lsn());
}

TEST_CASE("AnUpdateIfPresentNeitherCreatesNorSights") {
  const PrefilterKind kind = GENERATE(PrefilterKind::kNone, PrefilterKind::kAdmit);
  StoreFixture fixture(With(kind, 1'000, 1e-6));
  const auto add_if_present = [&] {
    return fixture.store->FetchUpdate(AsBytes("a"), fixture.Hash("a"), UpdateKind::kAdd,
                                      CounterType::kI64, 1, fixture.core->NowMs(), true);
  };
  REQUIRE(add_if_present().code == StatusCode::kNotFound);
  REQUIRE(add_if_present().code == StatusCode::kNotFound);
  REQUIRE(fixture.store->size() == 0);
  fixture.Add("a", 0);
  if (kind == PrefilterKind::kAdmit) {
    REQUIRE(add_if_present().code == StatusCode::kNotFound);
    fixture.Add("a", 0);
  }
  REQUIRE(add_if_present().previous == 0);
  REQUIRE(add_if_present().previous == 1);
}

TEST_CASE("AStreamedPutIfAbsentThatIsHeldBackGivesItsMemoryBack") {
  StoreFixture fixture(With(PrefilterKind::kAdmit, 1'000, 1e-6));
  const std::string value(5 << 20, 'x');
  const auto put = [&] {
    auto writer = ValueWriter::Begin(*fixture.core, value.size());
    REQUIRE(writer.ok());
    REQUIRE(writer->Write(0, AsBytes(value)) == StatusCode::kOk);
    PutOptions options;
    options.condition = PutCondition::kIfAbsent;
    return fixture.store->Put(AsBytes("a"), fixture.Hash("a"), *writer, options,
                              fixture.core->NowMs());
  };
  fixture.Settle();
  const MemoryUsage before = fixture.core->usage();
  REQUIRE(put().version == Lsn());
  fixture.Settle();
  REQUIRE(fixture.core->usage().segment_bytes == before.segment_bytes);
  REQUIRE(fixture.core->usage().tables_bytes <= before.tables_bytes + (2 << 20));
  REQUIRE(put().version != Lsn());
  REQUIRE(fixture.Text("a") == value);
  fixture.core->CheckInvariants();
}

TEST_CASE("AnAdmissionFilterGrowsAndForgetsNothing") {
  StoreFixture fixture(With(PrefilterKind::kAdmit));
  constexpr int kKeys = 100'000;
  int early = 0;
  for (int i = 0; i < kKeys; ++i) {
    early += fixture.Add(Key(i), 1).version != Lsn() ? 1 : 0;
    if (i % 64 == 0) fixture.core->BackgroundSlice(0);
  }
  // 1 % of the first layer and half as much of each next layer: at most 2 %.
  REQUIRE(early < kKeys / 40);
  REQUIRE(fixture.store->admission_filter()->usage().generation >= 3);
  for (int i = 0; i < kKeys; ++i) REQUIRE(fixture.Add(Key(i), 1).version != Lsn());
  fixture.core->CheckInvariants();
}

}  // namespace
}  // namespace tidepool::storage
