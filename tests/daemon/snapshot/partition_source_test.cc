// Images of a partition with records that change meanwhile, compared with its content at their end.
#include "daemon/snapshot/partition_source.h"

#include <catch2/catch.hpp>
#include <functional>
#include <map>

#include "daemon/snapshot/record_source.h"
#include "tests/storage/store_fixture.h"
#include "tests/support/random.h"

namespace tidepool::daemon::snapshot {
namespace {

using storage::StoreFixture;

struct Held {
  std::string value;
  std::uint8_t flags = 0;
  bool expires = false;

  friend bool operator==(const Held&, const Held&) = default;
};
using Model = std::map<std::string, Held>;

// Takes the image; `between` runs behind each slice but the last.
SourceSlice Take(
    StoreFixture& fixture, PartitionSource* source, std::string* image,
    const std::function<void()>& between = [] {}) {
  *image = ImagePreface();
  for (;;) {
    SourceSlice slice;
    source->Slice(&slice);
    *image += slice.items;
    if (slice.done || slice.code != StatusCode::kOk) return slice;
    between();
    fixture.core->BackgroundSlice(10'000);
  }
}

// Returns the image's content, fed in pieces like a file.
Model Replay(const std::string& image, const SourceSlice& end) {
  Model model;
  ImageDecoder decoder;
  std::string large_key;
  Held large;
  std::string held;
  for (std::size_t at = 0; at < image.size(); at += 100'000) {
    held += image.substr(at, 100'000);
    Bytes rest = AsBytes(held);
    ImageItem item;
    for (;;) {
      const auto taken = decoder.Next(&rest, &item);
      REQUIRE(taken.ok());
      if (!*taken) break;
      const std::string key(AsText(item.key));
      const bool over = item.expiry_ms != 0 && item.expiry_ms <= end.taken_at_ms;
      switch (item.kind) {
        case ImageItem::Kind::kPut:
          model[key] = {std::string(AsText(item.value)), item.value_flags, item.expiry_ms != 0};
          if (over) model.erase(key);
          break;
        case ImageItem::Kind::kDelete:
          model.erase(key);
          break;
        case ImageItem::Kind::kLargeBegin:
          large_key = key;
          large = {{}, 0, item.expiry_ms != 0};
          break;
        case ImageItem::Kind::kLargePart:
          large.value += AsText(item.value);
          break;
        case ImageItem::Kind::kLargeEnd:
          model[large_key] = std::move(large);
          break;
        case ImageItem::Kind::kLargeDrop:
          break;
        case ImageItem::Kind::kEnd:
          REQUIRE(item.version == end.end.value());
          REQUIRE(item.number == end.entries);
          break;
        case ImageItem::Kind::kBlock:
        case ImageItem::Kind::kInsert:
          FAIL("an item of another kind of partition");
      }
    }
    held = std::string(AsText(rest));
  }
  REQUIRE(decoder.ended());
  REQUIRE(held.empty());
  return model;
}

// Now, of the store itself.
Model ModelOf(StoreFixture& fixture, std::size_t keys) {
  Model model;
  for (std::size_t i = 0; i < keys; ++i) {
    const std::string key = "k" + std::to_string(i);
    const storage::HashOutcome got = fixture.Get(key);
    if (got.code != StatusCode::kOk) continue;
    const std::uint8_t flags = got.value_flags;
    const std::string value = fixture.Text(got);
    model[key] = {value, flags, fixture.Ttl(key).result != storage::kTtlNone};
  }
  return model;
}

class Changes {
 public:
  Changes(StoreFixture& fixture, std::size_t keys, std::size_t large_one_in)
      : fixture_(fixture), random_("partition_source_test"), keys_(keys), large_(large_one_in) {}

  void Make(int count) {
    for (int i = 0; i < count; ++i) One();
  }

 private:
  void One() {
    const std::string key = "k" + std::to_string(random_.Below(keys_));
    storage::PutOptions options;
    if (random_.OneIn(4)) options.ttl_ms = 3'600'000;
    if (random_.OneIn(large_)) {
      fixture_.Put(key, Value(70'000 + random_.Below(200'000)), options);
      return;
    }
    switch (random_.Below(6)) {
      case 0:
        fixture_.Delete(key);
        break;
      case 1:
        fixture_.Append(key, Value(random_.Below(50)));
        break;
      case 2:
        fixture_.Delete(key);
        fixture_.Add(key, static_cast<std::int64_t>(random_.Word()));
        break;
      case 3:
        fixture_.Expire(key, random_.OneIn(2) ? storage::kTtlNone : 3'600'000);
        break;
      default:
        fixture_.Put(key, Value(random_.Below(300)), options);
    }
  }
  std::string Value(std::size_t bytes) {
    const auto random = random_.Bytes(bytes);
    return std::string(AsText(Bytes(random)));
  }

  StoreFixture& fixture_;
  test::Random random_;
  const std::size_t keys_;
  const std::size_t large_;
};

// Segments of 64 KiB: a value is large from 32 KiB on.
storage::StoreOptions Store() {
  storage::StoreOptions options = storage::TinyStore(64 << 20, 64 * 1024);
  return options;
}

TEST_CASE("AnImageIsThePartitionAsItWasAtItsEnd") {
  for (const bool in_place : {true, false}) {
    storage::StoreOptions options = Store();
    options.partition.update_in_place = in_place;
    StoreFixture fixture(options);
    constexpr std::size_t kKeys = 3'000;
    Changes changes(fixture, kKeys, 200);
    changes.Make(10'000);
    for (int round = 0; round < 5; ++round) {
      RecordSource source(*fixture.core, fixture.partition->id());
      std::string image;
      // Few at first, so that it ends beside large values that change.
      const SourceSlice end =
          Take(fixture, &source, &image, [&] { changes.Make(round == 0 ? 0 : 20 / round); });
      REQUIRE(end.code == StatusCode::kOk);
      REQUIRE(end.end == fixture.partition->last_lsn());
      REQUIRE(Replay(image, end) == ModelOf(fixture, kKeys));
      // It notes nothing any more.
      changes.Make(100);
      SourceSlice after;
      source.Slice(&after);
    }
  }
}

TEST_CASE("ChangesInFrontOfTheWalkAreNotNoted") {
  StoreFixture fixture(Store());
  RecordSource source(*fixture.core, fixture.partition->id());
  for (int i = 0; i < 1'000; ++i) fixture.Put("k" + std::to_string(i), "v");
  for (int i = 0; i < 1'000; ++i) fixture.Put("k" + std::to_string(i), "w");
  std::string image;
  const SourceSlice end = Take(fixture, &source, &image);
  REQUIRE(end.entries == 1'000);
  REQUIRE(Replay(image, end).size() == 1'000);
}

TEST_CASE("ALargeValueThatChangesOnItsWayIsSentAsItIsAtTheEnd") {
  StoreFixture fixture(Store());
  fixture.Put("k0", std::string(2 << 20, 'a'));
  RecordSource source(*fixture.core, fixture.partition->id());
  std::string image;
  int slices = 0;
  const SourceSlice end = Take(fixture, &source, &image, [&] {
    if (++slices == 3) fixture.Put("k0", std::string(1 << 20, 'b'));
    if (slices == 5) fixture.Put("k1", std::string(100'000, 'c'));
  });
  REQUIRE(end.code == StatusCode::kOk);
  REQUIRE(Replay(image, end) == ModelOf(fixture, 2));
}

TEST_CASE("AnImageThatNobodyTakesIsGivenUp") {
  StoreFixture fixture(Store());
  fixture.Put("k", "v");
  RecordSource source(*fixture.core, fixture.partition->id());
  SourceSlice walked;
  // An end would come at once.
  fixture.Put("k0", std::string(2 << 20, 'a'));
  source.Slice(&walked);
  REQUIRE_FALSE(walked.done);
  const std::string value(30'000, 'x');
  for (std::size_t i = 0; i <= PartitionSource::kUntakenBytesMax / value.size(); ++i) {
    fixture.Put("k", value);
  }
  SourceSlice slice;
  source.Slice(&slice);
  REQUIRE(slice.code == StatusCode::kResourceExhausted);
  REQUIRE(slice.items.empty());
  REQUIRE_FALSE(slice.done);
}

TEST_CASE("AnImageUnderAnotherTermIsGivenUp") {
  StoreFixture fixture(Store());
  fixture.Put("k", "v");
  RecordSource source(*fixture.core, fixture.partition->id());
  fixture.partition->SetTerm(Term(2));
  SourceSlice slice;
  source.Slice(&slice);
  REQUIRE(slice.code == StatusCode::kAborted);
}

}  // namespace
}  // namespace tidepool::daemon::snapshot
