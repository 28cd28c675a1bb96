// Runs of keys: scans in both directions, counts, erasure, split keys, and dropping.
#include "storage/ordered_store.h"

#include <catch2/catch.hpp>

#include "tests/storage/store_fixture.h"

namespace tidepool::storage {
namespace {

StoreOptions Ordered(StoreOptions options = {}) {
  options.partition.kind = Kind::kOrdered;
  return options;
}

struct OrderedFixture : StoreFixture {
  explicit OrderedFixture(const StoreOptions& options = {})
      : StoreFixture(Ordered(options)), ordered(&partition->ordered()) {}

  // Returns a call's records as "key=value".
  std::vector<std::string> Scan(const ScanOptions& options, RangeProgress* progress = nullptr) {
    std::vector<std::string> seen;
    const RangeProgress result = ordered->Scan(options, core->NowMs(), [&](const RecordView& view) {
      seen.push_back(std::string(AsText(view.key)));
      if (!options.keys_only) seen.back() += "=" + std::string(AsText(view.value));
      return true;
    });
    if (progress != nullptr) *progress = result;
    return seen;
  }
  void PutNumbers(int count) {
    for (int i = 0; i < count; ++i) REQUIRE(Put(Number(i), "v").code == StatusCode::kOk);
  }
  static std::string Number(int i) {
    std::string text = std::to_string(i);
    return "n" + std::string(6 - text.size(), '0') + text;
  }

  OrderedStore* ordered;
};

KeyRange Range(std::string_view begin) { return {AsBytes(begin), false, std::nullopt}; }
KeyRange Range(std::string_view begin, std::string_view end) {
  return {AsBytes(begin), false, AsBytes(end)};
}
using Strings = std::vector<std::string>;

TEST_CASE("ScanGivesKeysAndValuesInOrder") {
  OrderedFixture fixture;
  for (const char* key : {"b", "d", "", "a", "c"}) fixture.Put(key, std::string("v") + key);
  RangeProgress progress;
  REQUIRE(fixture.Scan({Range("")}, &progress) == Strings{"=v", "a=va", "b=vb", "c=vc", "d=vd"});
  REQUIRE(progress.done);
  REQUIRE(progress.records == 5);
  REQUIRE(fixture.Scan({Range("b", "d")}) == Strings{"b=vb", "c=vc"});
  REQUIRE(fixture.Scan({.range = Range("b", "d"), .reverse = true}) == Strings{"c=vc", "b=vb"});
  REQUIRE(fixture.Scan({.range = Range("aa", "c"), .keys_only = true}) == Strings{"b"});
  REQUIRE(fixture.Scan({.range = {AsBytes("b"), true, std::nullopt}}) == Strings{"c=vc", "d=vd"});
  REQUIRE(fixture.Scan({Range("d", "b")}, &progress).empty());
  REQUIRE(progress.done);
  REQUIRE(!progress.last.has_value());
}

TEST_CASE("ScanOfAnEmptyPartitionIsDone") {
  OrderedFixture fixture;
  RangeProgress progress;
  for (const bool reverse : {false, true}) {
    REQUIRE(fixture.Scan({.range = Range(""), .reverse = reverse}, &progress).empty());
    REQUIRE(progress.done);
  }
}

TEST_CASE("FirstAndLastAreScansOfOne") {
  OrderedFixture fixture;
  fixture.PutNumbers(1000);
  REQUIRE(fixture.Scan({.range = Range(""), .records_max = 1}) == Strings{"n000000=v"});
  REQUIRE(fixture.Scan({.range = Range(""), .reverse = true, .records_max = 1}) ==
          Strings{"n000999=v"});
}

TEST_CASE("ScanGoesOnBehindTheLastKey") {
  OrderedFixture fixture;
  fixture.PutNumbers(1000);
  const bool reverse = GENERATE(false, true);
  Strings seen;
  std::string last;
  ScanOptions options{.range = Range(""), .reverse = reverse, .keys_only = true, .records_max = 7};
  RangeProgress progress;
  while (!progress.done) {
    for (std::string& key : fixture.Scan(options, &progress)) seen.push_back(std::move(key));
    last = AsText(*progress.last);
    if (reverse) {
      options.range.end = AsBytes(last);
    } else {
      options.range.begin = AsBytes(last);
      options.range.after_begin = true;
    }
  }
  if (reverse) std::reverse(seen.begin(), seen.end());
  REQUIRE(seen.size() == 1000);
  for (int i = 0; i < 1000; ++i) REQUIRE(seen[static_cast<std::size_t>(i)] == fixture.Number(i));
}

TEST_CASE("ARangeWithoutItsBeginningLacksItBothWays") {
  OrderedFixture fixture;
  for (const char* key : {"", "a", "ab"}) fixture.Put(key, "v");
  KeyRange range = Range("");
  range.after_begin = true;
  REQUIRE(fixture.Scan({.range = range}) == Strings{"a=v", "ab=v"});
  REQUIRE(fixture.Scan({.range = range, .reverse = true}) == Strings{"ab=v", "a=v"});
  range.begin = AsBytes(std::string_view("a"));
  REQUIRE(fixture.Scan({.range = range, .reverse = true}) == Strings{"ab=v"});
}

TEST_CASE("RecordThatTheVisitorRefusesIsNotPassed") {
  OrderedFixture fixture;
  fixture.PutNumbers(10);
  int calls = 0;
  RangeProgress progress = fixture.ordered->Scan({Range("")}, fixture.core->NowMs(),
                                                 [&](const RecordView&) { return ++calls < 4; });
  REQUIRE(progress.records == 3);
  REQUIRE(!progress.done);
  REQUIRE(AsText(*progress.last) == "n000002");
  progress = fixture.ordered->Scan({Range("")}, fixture.core->NowMs(),
                                   [&](const RecordView&) { return false; });
  REQUIRE(!progress.last.has_value());
  REQUIRE(!progress.done);
}

TEST_CASE("ScanIsBoundedHoweverMuchIsAskedFor") {
  OrderedFixture fixture;
  fixture.PutNumbers(10'000);
  RangeProgress progress;
  REQUIRE(fixture.Scan({.range = Range(""), .keys_only = true}, &progress).size() == 4096);
  REQUIRE(!progress.done);
}

TEST_CASE("AScanEndsBeforeItsEndHoweverManyHighBytesAreBelow") {
  OrderedFixture fixture;
  for (const char* key : {"a", "ab", "ab\xff", "ab\xff\xff", "abc", "ac", "b"})
    fixture.Put(key, "");
  REQUIRE(fixture.Scan({.range = {AsBytes("ab"), false, AsBytes("ac")}, .keys_only = true}) ==
          Strings{"ab", "abc", "ab\xff", "ab\xff\xff"});
}

TEST_CASE("ExpiredRecordsAreAbsentToScansAndCounts") {
  OrderedFixture fixture;
  PutOptions soon;
  soon.ttl_ms = 50;
  for (int i = 0; i < 300; ++i) {
    fixture.Put(fixture.Number(i), "v", i % 3 == 0 ? PutOptions{} : soon);
  }
  const auto count = [&] {
    return fixture.ordered->CountRange(Range(""), fixture.core->NowMs()).records;
  };
  REQUIRE(count() == 300);
  fixture.AdvanceMs(50);
  REQUIRE(count() == 100);
  for (const bool reverse : {false, true}) {
    for (const bool keys_only : {false, true}) {
      REQUIRE(
          fixture.Scan({.range = Range(""), .reverse = reverse, .keys_only = keys_only}).size() ==
          100);
    }
  }
  REQUIRE(fixture.store->size() == 300);
  fixture.Settle();  // The sweep takes them out of both indexes.
  REQUIRE(fixture.store->size() == 100);
  fixture.core->CheckInvariants();
  REQUIRE(count() == 100);
}

TEST_CASE("ScanPassesARunOfExpiredRecordsInBoundedCalls") {
  OrderedFixture fixture;
  PutOptions soon;
  soon.ttl_ms = 50;
  for (int i = 0; i < 5000; ++i) fixture.Put(fixture.Number(i), "v", soon);
  fixture.Put("z", "v");
  fixture.AdvanceMs(50);
  RangeProgress progress;
  REQUIRE(fixture.Scan({Range("")}, &progress).empty());
  REQUIRE(!progress.done);
  const std::string last(AsText(*progress.last));
  REQUIRE(last == fixture.Number(4095));
  REQUIRE(fixture.Scan({.range = {AsBytes(last), true, std::nullopt}}, &progress) ==
          Strings{"z=v"});
  REQUIRE(progress.done);
}

TEST_CASE("SettingAnExpiryReachesTheOrder") {
  OrderedFixture fixture;
  fixture.Put("a", "v");
  fixture.Put("b", "v");
  fixture.Expire("a", 50);
  fixture.core->CheckInvariants();
  fixture.AdvanceMs(50);
  REQUIRE(fixture.Scan({Range("")}) == Strings{"b=v"});
  fixture.Expire("b", 50);
  fixture.Expire("b", kTtlNone);
  fixture.core->CheckInvariants();
  fixture.AdvanceMs(50);
  REQUIRE(fixture.Scan({Range("")}) == Strings{"b=v"});
}

TEST_CASE("ScanGivesLargeValuesAsExtents") {
  OrderedFixture fixture;
  const std::string large(3 << 20, 'x');
  fixture.Put("a", "small");
  fixture.Put("b", large);
  Strings seen;
  fixture.ordered->Scan({Range("")}, fixture.core->NowMs(), [&](const RecordView& view) {
    if (view.extent == nullptr) {
      seen.push_back(std::string(AsText(view.value)));
    } else {
      REQUIRE(view.extent->value_bytes == large.size());
      REQUIRE(view.value_bytes == large.size());
      seen.push_back("extent");
    }
    return true;
  });
  REQUIRE(seen == Strings{"small", "extent"});
}

TEST_CASE("CountsInBoundedCalls") {
  OrderedFixture fixture;
  // All records may expire, so each is examined.
  PutOptions options;
  options.ttl_ms = 1'000'000;
  for (int i = 0; i < 5000; ++i) fixture.Put(fixture.Number(i), "v", options);
  KeyRange range = Range("n000100", "n004900");
  std::uint64_t counted = 0;
  int calls = 0;
  std::string last;
  for (RangeProgress progress; !progress.done; ++calls) {
    progress = fixture.ordered->CountRange(range, fixture.core->NowMs());
    counted += progress.records;
    if (progress.done) break;
    last = AsText(*progress.last);
    range.begin = AsBytes(last);
    range.after_begin = true;
  }
  REQUIRE(counted == 4800);
  REQUIRE(calls >= 2);
  REQUIRE(fixture.ordered->CountRange(Range("n5", "n4"), fixture.core->NowMs()).records == 0);
  REQUIRE(fixture.ordered->CountRange(Range("z"), fixture.core->NowMs()).done);
}

TEST_CASE("ErasesARangeInBoundedCalls") {
  OrderedFixture fixture;
  fixture.PutNumbers(1000);
  KeyRange range = Range("n000100", "n000350");
  StatusCode code = StatusCode::kOk;
  RangeProgress progress = fixture.ordered->EraseRange(range, 100, fixture.core->NowMs(), &code);
  REQUIRE(progress.records == 100);
  REQUIRE(!progress.done);
  REQUIRE(AsText(*progress.last) == "n000199");
  // Records after the last key stay.
  fixture.Put("n000150", "new");
  range.begin = *progress.last;
  range.after_begin = true;
  progress = fixture.ordered->EraseRange(range, 1000, fixture.core->NowMs(), &code);
  REQUIRE(code == StatusCode::kOk);
  REQUIRE(progress.records == 150);
  REQUIRE(progress.done);
  REQUIRE(fixture.store->size() == 751);
  REQUIRE(fixture.Text("n000150") == "new");
  REQUIRE(fixture.Text("n000350") == "v");
  fixture.core->CheckInvariants();
}

TEST_CASE("EraseRangeCountsNoExpiredRecords") {
  OrderedFixture fixture;
  PutOptions soon;
  soon.ttl_ms = 50;
  for (int i = 0; i < 20; ++i) fixture.Put(fixture.Number(i), "v", i < 5 ? soon : PutOptions{});
  fixture.AdvanceMs(50);
  StatusCode code = StatusCode::kOk;
  const RangeProgress progress =
      fixture.ordered->EraseRange(Range(""), 1000, fixture.core->NowMs(), &code);
  REQUIRE(progress.records == 15);
  REQUIRE(progress.done);
  REQUIRE(fixture.store->size() == 0);
}

TEST_CASE("SplitKeyIsShortAndInTheMiddle") {
  OrderedFixture fixture;
  REQUIRE(!fixture.ordered->SplitKey().has_value());
  fixture.Put("apple-with-a-long-tail", "v");
  REQUIRE(!fixture.ordered->SplitKey().has_value());
  fixture.Put("banana-with-a-long-tail", "v");
  REQUIRE(AsText(*fixture.ordered->SplitKey()) == "b");
  fixture.PutNumbers(1000);
  const std::vector<std::byte> split = *fixture.ordered->SplitKey();
  const auto below = fixture.ordered->CountRange({{}, false, split}, 0).records;
  REQUIRE(below == 501);
}

TEST_CASE("KeysOf16KiBAreOrderedByTheirLastByte") {
  OrderedFixture fixture;
  const std::string stem(16'383, 'k');
  for (int i = 255; i >= 0; --i) {
    REQUIRE(fixture.Put(stem + static_cast<char>(i), std::to_string(i)).code == StatusCode::kOk);
  }
  int wanted = 0;
  fixture.ordered->Scan({Range("")}, 0, [&](const RecordView& view) {
    REQUIRE(AsText(view.value) == std::to_string(wanted++));
    return true;
  });
  REQUIRE(wanted == 256);
  fixture.core->CheckInvariants();
}

TEST_CASE("DroppedOrderedPartitionGivesAllMemoryBack") {
  OrderedFixture fixture(TinyStore(8 << 20));
  const std::uint64_t before = fixture.core->usage().used_bytes;
  const PartitionId id(NamespaceId(2), 0);
  PartitionOptions options;
  options.kind = Kind::kOrdered;
  HashStore& store = fixture.core->AddPartition(id, Term(1), options).value()->hash();
  for (int i = 0; i < 20'000; ++i) {
    const std::string key = "key" + std::to_string(i);
    REQUIRE(store.Put(AsBytes(key), fixture.Hash(key), AsBytes("value"), {}, 1).code ==
            StatusCode::kOk);
  }
  REQUIRE(fixture.core->usage().index_bytes > 20'000 * 20);
  fixture.core->DropPartition(id);
  fixture.core->CheckInvariants();
  fixture.core->BackgroundSlice(0);
  fixture.core->CheckInvariants();
  fixture.Settle();
  fixture.core->CheckInvariants();
  // Not counting a ready block or two.
  REQUIRE(fixture.core->usage().used_bytes <= before + 4 * 4096);
}

TEST_CASE("CompactionOfADroppedOrderedPartitionLeavesItsOrderAlone") {
  OrderedFixture fixture(TinyStore(100 * 4096));
  const PartitionId id(NamespaceId(2), 0);
  PartitionOptions options;
  options.kind = Kind::kOrdered;
  HashStore& store = fixture.core->AddPartition(id, Term(1), options).value()->hash();
  int taken = 0;
  const auto put = [&](HashStore& to, int i) {
    // Longer than a leaf holds: its order would have to read the records.
    const std::string key = std::string(600, 'k') + std::to_string(i);
    return to.Put(AsBytes(key), fixture.Hash(key), AsBytes("value"), {}, 1).code;
  };
  while (put(store, taken) == StatusCode::kOk) ++taken;
  REQUIRE(taken > 100);
  for (int i = 0; i < taken; i += 2) {
    const std::string key = std::string(600, 'k') + std::to_string(i);
    store.Delete(AsBytes(key), fixture.Hash(key), Lsn(), 1);
  }
  fixture.core->DropPartition(id);
  const std::uint64_t compacted = fixture.core->counters().compacted_segments;
  // Puts that find no memory compact the dropped partition's records, without its order.
  int added = 0;
  while (put(*fixture.store, added) == StatusCode::kOk) ++added;
  REQUIRE(added > 10);
  REQUIRE(fixture.core->counters().compacted_segments > compacted);
  fixture.core->CheckInvariants();
  fixture.Settle();
  fixture.core->CheckInvariants();
  REQUIRE(fixture.store->size() == static_cast<std::uint64_t>(added));
}

TEST_CASE("WhatCannotBeReadCanBeErased") {
  StoreOptions options = TinyStore(64 * 4096);
  options.partition.kind = Kind::kOrdered;
  options.slots = 2'000;
  StoreFixture fixture(options);
  for (int i = 10'000; i < 11'000; ++i) {
    REQUIRE(fixture.Put(std::to_string(i), std::string(500, 'v')).code == StatusCode::kOk);
    fixture.core->BackgroundSlice(1'000'000);
    fixture.core->Poll();
  }
  FaultRule rule;
  rule.operation = DeviceOperation::kRead;
  rule.error = EIO;
  rule.times = 1'000'000;
  fixture.device->AddRule(rule);
  OrderedStore& ordered = fixture.partition->ordered();
  std::uint64_t erased = 0;
  for (RangeProgress progress; !progress.done; erased += progress.records) {
    progress = fixture.Run([&] {
      StatusCode code = StatusCode::kOk;
      return ordered.EraseRange({}, 100, fixture.core->NowMs(), &code);
    });
    fixture.core->BackgroundSlice(1'000'000);
  }
  REQUIRE(erased == 1'000);
  fixture.core->CheckInvariants();
  REQUIRE(fixture.store->size() == 0);
}

}  // namespace
}  // namespace tidepool::storage
