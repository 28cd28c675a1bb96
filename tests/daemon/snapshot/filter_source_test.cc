// Images of a filter that changes while they are taken: whoever sets their bits has the filter that
// there was at their end.
#include "daemon/snapshot/filter_source.h"

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "tests/storage/store_fixture.h"
#include "tests/support/random.h"

namespace tidepool::daemon::snapshot {
namespace {

using storage::BloomStore;
using storage::StoreFixture;

storage::StoreOptions OfBytes(std::uint64_t bytes) {
  storage::StoreOptions options;
  options.memory_bytes = 256ull << 20;
  options.partition.kind = Kind::kBloom;
  options.partition.filter = FilterShape{bytes / kSplitBlockBytes};
  return options;
}

// Returns the image's content in a filter of another core.
std::unique_ptr<StoreFixture> Replay(const std::string& image, const SourceSlice& end,
                                     const storage::StoreOptions& options, std::size_t* blocks) {
  auto fixture = std::make_unique<StoreFixture>(options);
  BloomStore& store = fixture->partition->bloom();
  ImageDecoder decoder;
  Bytes rest = AsBytes(image);
  ImageItem item;
  *blocks = 0;
  for (;;) {
    const auto taken = decoder.Next(&rest, &item);
    REQUIRE(taken.ok());
    if (!*taken) break;
    if (item.kind == ImageItem::Kind::kBlock) {
      ++*blocks;
      store.UnionBlock(item.number, item.value);
    } else if (item.kind == ImageItem::Kind::kInsert) {
      store.InsertAndTell(item.number);
    } else {
      REQUIRE(item.kind == ImageItem::Kind::kEnd);
      REQUIRE(item.number == end.entries);
      REQUIRE(item.version == end.end.value());
    }
  }
  REQUIRE(decoder.ended());
  REQUIRE(rest.empty());
  return fixture;
}

void CheckSame(const BloomStore& one, const BloomStore& other) {
  REQUIRE(one.filter().bits_set() == other.filter().bits_set());
  for (std::uint64_t block = 0; block < one.filter().block_count(); ++block) {
    REQUIRE(AsText(one.filter().Block(block)) == AsText(other.filter().Block(block)));
  }
}

SourceSlice Take(
    PartitionSource* source, std::string* image, const std::function<void()>& between = [] {}) {
  *image = ImagePreface();
  for (;;) {
    SourceSlice slice;
    source->Slice(&slice);
    *image += slice.items;
    if (slice.done || slice.code != StatusCode::kOk) return slice;
    between();
  }
}

TEST_CASE("AnImageOfAFilterIsTheFilterAsItWasAtItsEnd") {
  test::Random random("AnImageOfAFilterIsTheFilterAsItWasAtItsEnd");
  for (const std::uint64_t bytes : {4096ull, 65536ull, 4ull << 20}) {
    const storage::StoreOptions options = OfBytes(bytes);
    StoreFixture fixture(options);
    BloomStore& store = fixture.partition->bloom();
    storage::Partition* const other =
        fixture.core->AddPartition(PartitionId(NamespaceId(2), 0), Term(1), options.partition)
            .value();
    std::uint64_t united = 0;
    const auto change = [&](std::uint64_t count) {
      for (std::uint64_t i = 0; i < count; ++i) {
        store.InsertAndTell(random.Word());
        other->bloom().InsertAndTell(random.Word());
      }
      if (!random.OneIn(4)) return;
      if (!store.UnionSlice(other->bloom(), &united, 1 + random.Below(8))) united = 0;
    };
    for (int round = 0; round < 10; ++round) {
      INFO("bytes " << bytes << ", round " << round);
      change(random.Below(1'000));
      FilterSource source(*fixture.core, fixture.partition->id());
      std::string image;
      const SourceSlice end = Take(&source, &image, [&] { change(random.Below(100)); });
      REQUIRE(end.code == StatusCode::kOk);
      REQUIRE(end.end == fixture.partition->last_lsn());
      std::size_t blocks = 0;
      const auto copy = Replay(image, end, options, &blocks);
      CheckSame(store, copy->partition->bloom());
      REQUIRE(copy->partition->store().size() == fixture.partition->store().size());
      // It notes nothing any more.
      change(100);
    }
    fixture.core->CheckInvariants();
  }
}

TEST_CASE("BlocksWithoutBitsAreNotInAnImage") {
  const storage::StoreOptions options = OfBytes(64 << 20);
  StoreFixture fixture(options);
  for (const bool touched : {false, true}) {
    if (touched) fixture.Settle();
    FilterSource source(*fixture.core, fixture.partition->id());
    std::string image;
    const SourceSlice end = Take(&source, &image);
    REQUIRE(end.entries == (touched ? 1 : 0));
    fixture.partition->bloom().InsertAndTell(12345);
  }
}

TEST_CASE("InsertsInFrontOfTheWalkAreNotNoted") {
  const storage::StoreOptions options = OfBytes(1 << 20);
  StoreFixture fixture(options);
  BloomStore& store = fixture.partition->bloom();
  FilterSource source(*fixture.core, fixture.partition->id());
  for (std::uint64_t i = 0; i < 10'000; ++i) store.InsertAndTell(i * 0x9e3779b97f4a7c15);
  std::string image;
  const SourceSlice end = Take(&source, &image);
  std::size_t blocks = 0;
  CheckSame(store, Replay(image, end, options, &blocks)->partition->bloom());
  REQUIRE(end.entries == blocks);
}

TEST_CASE("AnImageOfAFilterThatNobodyTakesIsGivenUp") {
  test::Random random("AnImageOfAFilterThatNobodyTakesIsGivenUp");
  StoreFixture fixture(OfBytes(64 << 20));
  BloomStore& store = fixture.partition->bloom();
  for (int i = 0; i < 100'000; ++i) store.InsertAndTell(random.Word());
  FilterSource source(*fixture.core, fixture.partition->id());
  SourceSlice slice;
  for (int i = 0; i < 200; ++i) source.Slice(&slice);
  REQUIRE_FALSE(slice.done);
  // Four fifths of them are behind the walk, in 32 bytes each.
  for (std::size_t i = 0; i < PartitionSource::kUntakenBytesMax / 16; ++i) {
    store.InsertAndTell(random.Word());
  }
  source.Slice(&slice);
  REQUIRE(slice.code == StatusCode::kResourceExhausted);
  REQUIRE(slice.items.empty());
}

TEST_CASE("AnImageOfAFilterUnderAnotherTermIsGivenUp") {
  StoreFixture fixture(OfBytes(1 << 20));
  FilterSource source(*fixture.core, fixture.partition->id());
  fixture.partition->SetTerm(Term(2));
  SourceSlice slice;
  source.Slice(&slice);
  REQUIRE(slice.code == StatusCode::kAborted);
}

}  // namespace
}  // namespace tidepool::daemon::snapshot
