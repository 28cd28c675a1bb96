// Results of a direct read, and each reason to ask the owner.
#include "client/direct/direct_reader.h"

#include <catch2/catch.hpp>

#include <vector>

#include "client/direct/unanswered_keys.h"
#include "tests/client/direct/direct_fixture.h"

namespace tidepool::internal {
namespace {

using storage::kGuardBusy;
using storage::kRecordExpiry;
using storage::kSegmentResident;
using storage::PartitionOptions;
using storage::PutOptions;
using storage::StoreOptions;
using storage::TinyStore;

std::string Key(int i) { return "key" + std::to_string(i); }

TEST_CASE("DirectReadFindsWhatTheOwnerHas") {
  DirectFixture fixture;
  const std::vector<std::string> keys = {"",         "a",         "1234567",
                                         "12345678", "123456789", std::string(100, 'k')};
  for (const std::string& key : keys) {
    for (std::size_t bytes : {0, 1, 7, 8, 9, 64, 1000, 8192}) {
      const std::string value(bytes, static_cast<char>('a' + bytes % 26));
      const Lsn version = fixture.Put(key, value).version;
      REQUIRE(fixture.Direct(key) == value);
      REQUIRE(fixture.Read(key).version == version.value());
    }
  }
  REQUIRE(fixture.Direct("other") == "<absent>");
  fixture.Delete("a");
  REQUIRE(fixture.Direct("a") == "<absent>");
}

TEST_CASE("DirectReadTellsCountersAndWhatIsThere") {
  DirectFixture fixture;
  fixture.Add("n", 5);
  const DirectRead read = fixture.Read("n");
  REQUIRE(read.value_flags == storage::kRecordI64);
  REQUIRE(read.value_bytes == 8);
  fixture.Add("n", 2);  // In place.
  REQUIRE(fixture.Read("n").version > read.version);
  const auto contains = fixture.reader.Contains(fixture.opened, AsBytes("n"), fixture.Hash("n"));
  REQUIRE(contains.outcome == DirectRead::Outcome::kFound);
  REQUIRE(contains.value_bytes == 8);
}

// Growth by pieces and whole blocks, overflow buckets, rebuilt tags, a directory that moves.
TEST_CASE("DirectReadFollowsAnIndexThatGrows") {
  DirectFixture fixture(TinyStore(48ull << 20));
  const auto directory = fixture.root().directory;
  constexpr int kKeys = 120'000;
  for (int i = 0; i < kKeys; ++i) {
    fixture.Put(Key(i), Key(i));
    if (i % 1000 == 0) {
      fixture.Settle();
      REQUIRE(fixture.Direct(Key(i / 2)) == Key(i / 2));
      REQUIRE(fixture.Direct(Key(i + 1)) == "<absent>");
    }
  }
  REQUIRE(fixture.root().directory != directory);
  REQUIRE(fixture.store->index().rebuilt_buckets() > 0);
  for (int i = 0; i < kKeys; ++i) REQUIRE(fixture.Direct(Key(i)) == Key(i));
  for (int i = 0; i < 1000; ++i) REQUIRE(fixture.Direct(Key(kKeys + i)) == "<absent>");
}

TEST_CASE("DirectReadFollowsRecordsThatCompactionMoves") {
  DirectFixture fixture(TinyStore(4ull << 20));
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 1000; ++i) {
      if (round > 0 && i % 3 == round % 3) continue;  // Keeps some segments from dying as a whole.
      fixture.Put(Key(i), std::string(300 + (i + round) % 64, static_cast<char>('a' + round)));
    }
    fixture.Settle();
    for (int i = 0; i < 1000; ++i) REQUIRE(fixture.Direct(Key(i)) == fixture.Text(Key(i)));
  }
  REQUIRE(fixture.core->counters().compacted_segments > 0);
}

TEST_CASE("DirectReadOfAnOrderedPartitionFindsItsRecords") {
  StoreOptions options;
  options.partition.kind = Kind::kOrdered;
  DirectFixture fixture(options);
  fixture.Put("a", "1");
  fixture.Put(std::string(1000, 'b'), "2");
  REQUIRE(fixture.Direct("a") == "1");
  REQUIRE(fixture.Direct(std::string(1000, 'b')) == "2");
  REQUIRE(fixture.Direct("b") == "<absent>");
}

TEST_CASE("DirectReadOfManyFindsWhatEachWould") {
  DirectFixture fixture;
  for (int i = 0; i < 100; i += 2) fixture.Put(Key(i), Key(i));
  std::vector<std::string> keys;
  std::vector<std::array<std::byte, 32>> room(100);
  std::vector<DirectReader::Item> items;
  for (int i = 0; i < 100; ++i) keys.push_back(Key(i));
  for (int i = 0; i < 100; ++i) {
    items.push_back({&fixture.opened, AsBytes(keys[i]), fixture.Hash(keys[i]), room[i], true, {}});
  }
  const DirectPartition unopened;
  items[50].partition = &unopened;
  fixture.reader.MultiGet(items);
  for (int i = 0; i < 100; ++i) {
    CAPTURE(i);
    if (i == 50) {
      REQUIRE(items[i].read.refusal == DirectRefusal::kBadView);
      continue;
    }
    REQUIRE((items[i].read.outcome == DirectRead::Outcome::kFound) == (i % 2 == 0));
    if (i % 2 != 0) continue;
    REQUIRE(AsText(Bytes(room[i]).first(items[i].read.value_bytes)) == keys[i]);
  }
  fixture.AdvanceMs(kLeaseNs / 1'000'000);
  fixture.reader.MultiGet(items);
  REQUIRE(items[0].read.refusal == DirectRefusal::kNoLease);
}

TEST_CASE("DirectReadOfAFilterFindsWhatWasInserted") {
  for (const std::uint64_t bytes : {4096ull, 65536ull, 65536ull * 40}) {
    StoreOptions options;
    options.partition.kind = Kind::kBloom;
    options.partition.filter = FilterShape{bytes / kSplitBlockBytes};
    DirectFixture fixture(options);
    storage::BloomStore& filter = fixture.partition->bloom();
    const auto contains = [&](std::uint64_t i) {
      const DirectRead read = fixture.reader.Contains(fixture.opened, {}, fixture.Hash(Key(i)));
      REQUIRE(read.outcome != DirectRead::Outcome::kAskOwner);
      REQUIRE((read.outcome == DirectRead::Outcome::kFound) ==
              filter.Contains(fixture.Hash(Key(i))));
      return read.outcome == DirectRead::Outcome::kFound;
    };
    for (int i = 0; i < 1000; ++i) {
      contains(i);
      filter.InsertAndTell(fixture.Hash(Key(i)));
      REQUIRE(contains(i));
    }
    fixture.Settle();
    int found = 0;
    for (int i = 1000; i < 2000; ++i) found += contains(i) ? 1 : 0;
    REQUIRE(found < 100);
    fixture.partition->CloseGuard();
    REQUIRE(fixture.reader.Contains(fixture.opened, {}, 1).refusal == DirectRefusal::kClosed);
  }
}

// ---- Refusals.

TEST_CASE("DirectReadRefusesWithoutALease") {
  DirectFixture fixture;
  fixture.Put("a", "1");
  fixture.clock.AdvanceNs(kLeaseNs - 1);
  REQUIRE(fixture.Direct("a") == "1");
  fixture.clock.AdvanceNs(1);
  REQUIRE(fixture.Direct("a") == "<no lease>");
  REQUIRE(fixture.Direct("absent") == "<no lease>");
  fixture.core->EndLease();
  REQUIRE(fixture.Direct("a") == "<no lease>");
}

TEST_CASE("DirectReadRefusesAfterALeaseThatHadRunOutUntilItIsOpenedAnew") {
  DirectFixture fixture;
  fixture.Put("a", "1");
  fixture.clock.AdvanceNs(kLeaseNs);
  fixture.ShowLease();
  REQUIRE(fixture.Direct("a") == "<closed>");
  fixture.Open();
  REQUIRE(fixture.Direct("a") == "1");
}

TEST_CASE("DirectReadRefusesWhileABatchIsApplied") {
  DirectFixture fixture;
  fixture.Put("a", "1");
  fixture.partition->SetBusy(true);
  REQUIRE(fixture.Direct("a") == "<busy>");
  REQUIRE(fixture.Direct("absent") == "<busy>");
  fixture.partition->SetBusy(false);
  REQUIRE(fixture.Direct("a") == "1");
}

TEST_CASE("DirectReadRefusesUnderAnotherTerm") {
  DirectFixture fixture;
  fixture.Put("a", "1");
  fixture.partition->SetTerm(Term(2));
  REQUIRE(fixture.Direct("a") == "<closed>");
  REQUIRE(fixture.Direct("absent") == "<closed>");
  fixture.Open();
  REQUIRE(fixture.Direct("a") == "1");
  fixture.partition->Freeze();
  REQUIRE(fixture.Direct("a") == "<closed>");
}

TEST_CASE("DirectReadRefusesOfADroppedPartitionAndOfOneThatHasItsRoot") {
  DirectFixture fixture;
  fixture.Put("a", "1");
  const PartitionId id = fixture.partition->id();
  fixture.core->DropPartition(id);
  REQUIRE(fixture.Direct("a") == "<closed>");
  fixture.Settle();
  fixture.partition = fixture.core->AddPartition(id, Term(1), {}).value();
  REQUIRE(fixture.core->ViewOf(*fixture.partition).value().root == fixture.view.root);
  REQUIRE(fixture.Direct("a") == "<closed>");
}

TEST_CASE("DirectReadRefusesWhileTheIndexMoves") {
  DirectFixture fixture;
  fixture.Put("a", "1");
  fixture.HomeOf("a").header += storage::bucket::kSequenceStep;
  REQUIRE(fixture.Direct("a") == "<unsettled>");
  fixture.HomeOf("a").header += storage::bucket::kSequenceStep;
  REQUIRE(fixture.Direct("a") == "1");
}

TEST_CASE("DirectReadRefusesARecordThatIsBeingChanged") {
  DirectFixture fixture;
  fixture.Put("a", "1");
  storage::RecordHeader& record = fixture.RecordOf("a");
  ++record.sequence;
  REQUIRE(fixture.Direct("a") == "<unsettled>");
  ++record.sequence;
  REQUIRE(fixture.Direct("a") == "1");
}

TEST_CASE("DirectReadRefusesWhatHasExpired") {
  DirectFixture fixture;
  PutOptions soon;
  soon.ttl_ms = 5;
  fixture.Put("a", "1", soon);
  REQUIRE(fixture.Direct("a") == "1");
  fixture.AdvanceMs(4);
  REQUIRE(fixture.Direct("a") == "1");
  fixture.AdvanceMs(1);
  REQUIRE(fixture.Direct("a") == "<expired>");
  fixture.Get("a");  // Which removes it.
  REQUIRE(fixture.Direct("a") == "<absent>");
}

TEST_CASE("DirectReadTakesTheTimeOfTheOwner") {
  DirectFixture fixture;
  PutOptions soon;
  soon.ttl_ms = 5;
  fixture.Put("a", "1", soon);
  const auto offset_ns = static_cast<std::int64_t>(fixture.clock.WallMs()) * 1'000'000 -
                         static_cast<std::int64_t>(fixture.clock.MonotonicNs());
  fixture.core->ShowWallOffset(offset_ns + 4'999'999);
  REQUIRE(fixture.Direct("a") == "1");
  fixture.core->ShowWallOffset(offset_ns + 5'000'000);
  REQUIRE(fixture.Direct("a") == "<expired>");
}

// With segments of 4 KiB, values above 2 KiB have their own segments. The remainder lies in the
// record, if it is small enough too.
TEST_CASE("DirectReadFindsLargeValuesPieceByPiece") {
  DirectFixture fixture(TinyStore(4 << 20));
  const std::size_t piece = storage::ExtentSegmentCapacity(4096);
  for (const std::size_t bytes :
       {std::size_t{2048}, std::size_t{2049}, piece, piece + 1, piece + 2048, piece + 2049,
        2 * piece - 1, 2 * piece, 2 * piece + 500}) {
    CAPTURE(bytes);
    std::string value;
    for (std::size_t i = 0; i < bytes; ++i) value += static_cast<char>('a' + i % 23);
    for (const std::string_view key : {"a", "of a longer name", "b"}) {
      fixture.Put(key, value);
      REQUIRE(fixture.Direct(key) == value);
    }
    fixture.Append("b", "the end");
    REQUIRE(fixture.Direct("b") == value + "the end");
    PutOptions soon;
    soon.ttl_ms = 5;
    fixture.Put("a", value, soon);
    REQUIRE(fixture.Direct("a") == value);
    fixture.AdvanceMs(5);
    REQUIRE(fixture.Direct("a") == "<expired>");
  }
  const auto contains = fixture.reader.Contains(fixture.opened, AsBytes("b"), fixture.Hash("b"));
  REQUIRE(contains.outcome == DirectRead::Outcome::kFound);
}

TEST_CASE("DirectReadRefusesLargeValuesWhosePiecesAreNotTheRecords") {
  DirectFixture fixture(TinyStore(1 << 20));
  fixture.Put("a", std::string(5000, 'x'));
  auto* const link =
      reinterpret_cast<std::byte*>(&fixture.RecordOf("a")) + sizeof(storage::RecordHeader) + 1;
  const storage::ExtentLink whole = storage::LoadExtentLink(link);
  storage::StoreExtentLink(link, {whole.number + 1, whole.index});
  REQUIRE(fixture.Direct("a") == "<large value>");
  storage::StoreExtentLink(link, {whole.number, ~std::uint32_t{0}});
  REQUIRE(fixture.Direct("a") == "<large value>");
  storage::StoreExtentLink(link, whole);
  REQUIRE(fixture.Direct("a") == std::string(5000, 'x'));
}

TEST_CASE("DirectReadRefusesSmallBuffers") {
  DirectFixture fixture;
  fixture.Put("large", std::string(3 << 20, 'x'));
  REQUIRE(fixture.Direct("large") == "<no room>");
  REQUIRE(fixture.Read("large").value_bytes == 3 << 20);
  fixture.Put("a", std::string(8193, 'y'));
  REQUIRE(fixture.Direct("a") == "<no room>");
  REQUIRE(fixture.Read("a").value_bytes == 8193);
  const auto contains = fixture.reader.Contains(fixture.opened, AsBytes("a"), fixture.Hash("a"));
  REQUIRE(contains.outcome == DirectRead::Outcome::kFound);
}

// In segments of the log, and in segments of their own.
TEST_CASE("DirectReadRefusesWhatIsOnADeviceAndSendsSomeReadsToTheOwner") {
  const std::size_t bytes = GENERATE(std::size_t{500}, std::size_t{5000});
  const int keys = static_cast<int>(2'000'000 / bytes);
  StoreOptions options = TinyStore(1 << 20);
  options.slots = 1024;
  DirectFixture fixture(options);
  for (int i = 0; i < keys; ++i) fixture.Put(Key(i), std::string(bytes, 'v'));
  int found = 0;
  int away = 0;
  int sampled = 0;
  for (int i = 0; i < keys; ++i) {
    const DirectRead read = fixture.Read(Key(i));
    found += read.outcome == DirectRead::Outcome::kFound ? 1 : 0;
    away += read.refusal == DirectRefusal::kNotResident ? 1 : 0;
    sampled += read.refusal == DirectRefusal::kSampled ? 1 : 0;
  }
  CAPTURE(bytes);
  REQUIRE(found > 0);
  REQUIRE(away > 0);
  REQUIRE(sampled == keys / static_cast<int>(DirectReader::kSampleEvery));
  REQUIRE(found + away + sampled == keys);
}

TEST_CASE("DirectReadSaysWhichArenaIsMissing") {
  DirectFixture fixture;
  fixture.Put("a", "1");
  const std::uint64_t frame = fixture.SegmentOf("a").frame;
  ArenaMap partial(fixture.pool->base(), fixture.pool->block_bytes() * 100,
                   std::countr_zero(fixture.pool->block_bytes()));
  DirectReader reader(partial, fixture.clock);
  DirectPartition opened;
  std::uint64_t missing = 0;
  REQUIRE(reader.Open(fixture.view, &opened, &missing) == DirectRefusal::kNotMapped);
  REQUIRE(missing == fixture.view.core_root);
  const std::uint64_t block = fixture.pool->block_bytes();
  for (std::uint64_t at = block; at < 8 * block; at += block) {
    if (at != frame) partial.NoteMapped(at, block);
  }
  REQUIRE(reader.Open(fixture.view, &opened, &missing) == DirectRefusal::kNone);
  const DirectRead read = reader.Get(opened, AsBytes("a"), fixture.Hash("a"), fixture.room);
  REQUIRE(read.refusal == DirectRefusal::kNotMapped);
  REQUIRE(read.missing == frame);
  partial.NoteMapped(frame, block);
  REQUIRE(reader.Get(opened, AsBytes("a"), fixture.Hash("a"), fixture.room).outcome ==
          DirectRead::Outcome::kFound);
}

// Whatever it is that lies there: a directory, a bucket, a page of the segment table, a record.
TEST_CASE("EachBlockThatIsNotMappedIsAskedFor") {
  DirectFixture fixture(storage::TinyStore(4 << 20));
  constexpr int kKeys = 6'000;
  for (int i = 0; i < kKeys; ++i) fixture.Put(Key(i), Key(i));
  fixture.Settle();
  const std::uint64_t block = fixture.pool->block_bytes();
  const std::uint64_t end = block + fixture.pool->usage().mapped_bytes;
  std::size_t asked = 0;
  for (std::uint64_t hole = block; hole < end; hole += block) {
    ArenaMap partial(fixture.pool->base(), end, std::countr_zero(block));
    partial.NoteMapped(block, hole - block);
    partial.NoteMapped(hole + block, end - hole - block);
    DirectReader reader(partial, fixture.clock);
    DirectPartition opened;
    std::uint64_t missing = 0;
    if (reader.Open(fixture.view, &opened, &missing) != DirectRefusal::kNone) continue;
    for (int i = 0; i < kKeys; i += 97) {
      const DirectRead read =
          reader.Get(opened, AsBytes(Key(i)), fixture.Hash(Key(i)), fixture.room);
      if (read.outcome == DirectRead::Outcome::kFound) continue;
      REQUIRE(std::string(NameOf(read.refusal)) == NameOf(DirectRefusal::kNotMapped));
      REQUIRE(read.missing / block == hole / block);
      ++asked;
    }
  }
  REQUIRE(asked > 100);
}

TEST_CASE("NoViewOfWhatMayNotBeReadDirectly") {
  StoreOptions options;
  options.partition.kind = Kind::kQueue;
  const storage::StoreFixture fixture(options);
  REQUIRE(!fixture.core->ViewOf(*fixture.partition).has_value());
}

TEST_CASE("ReaderCountsHowItsReadsEnd") {
  DirectFixture fixture;
  fixture.Put("a", "1");
  fixture.Direct("a");
  fixture.Direct("absent");
  fixture.partition->CloseGuard();
  fixture.Direct("a");
  const auto& counts = fixture.reader.counts();
  REQUIRE(counts[static_cast<std::size_t>(DirectRefusal::kNone)] == 2);
  REQUIRE(counts[static_cast<std::size_t>(DirectRefusal::kClosed)] == 1);
}

TEST_CASE("UnansweredKeyIsHeldUntilItsLastOperationIsAnswered") {
  UnansweredKeys keys;
  const std::uint64_t hash = KeyHash(AsBytes("a"));
  REQUIRE(!keys.MayHold(1, hash));
  keys.Add(hash);
  keys.Add(hash);
  keys.Remove(hash);
  REQUIRE(keys.MayHold(1, hash));
  REQUIRE(!keys.MayHold(1, KeyHash(AsBytes("b"))));
  keys.Remove(hash);
  REQUIRE(!keys.MayHold(1, hash));
}

TEST_CASE("WhatHasNoKeyKeepsAllOfItsNamespaceAway") {
  UnansweredKeys keys;
  keys.AddUnnamed(7);
  REQUIRE(keys.MayHold(7, KeyHash(AsBytes("a"))));
  REQUIRE(!keys.MayHold(8, KeyHash(AsBytes("a"))));
  keys.RemoveUnnamed(7);
  REQUIRE(!keys.MayHold(7, KeyHash(AsBytes("a"))));
}

}  // namespace
}  // namespace tidepool::internal
