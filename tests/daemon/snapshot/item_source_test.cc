// Images of a queue that changes while they are taken: whoever pushes their items in their order
// has the queue that there was at their end.
#include "daemon/snapshot/item_source.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/storage/queue_fixture.h"
#include "tests/support/random.h"

namespace tidepool::daemon::snapshot {
namespace {

using storage::PushOptions;
using storage::QueueFixture;
using storage::Seen;
using storage::StoreOptions;

// (priority, id): the order of delivery.
using Place = storage::QueueStore::ItemPlace;
struct Item {
  std::string value;
  std::uint64_t expiry_ms = 0;

  friend bool operator==(const Item&, const Item&) = default;
};
using Model = std::map<Place, Item>;

SourceSlice SliceOf(QueueFixture& fixture, PartitionSource* source) {
  return fixture.Run([&] {
    SourceSlice slice;
    source->Slice(&slice);
    return slice;
  });
}

// Takes the image; `between` runs behind each slice but the last.
SourceSlice Take(
    QueueFixture& fixture, PartitionSource* source, std::string* image,
    const std::function<void()>& between = [] {}) {
  *image = ImagePreface();
  for (;;) {
    const SourceSlice slice = SliceOf(fixture, source);
    *image += slice.items;
    if (slice.done || slice.code != StatusCode::kOk) return slice;
    between();
    fixture.core->BackgroundSlice(10'000);
    fixture.core->Poll();
  }
}

Place PlaceOf(Bytes key) {
  const storage::ItemKey item = storage::ItemKey::Of(key);
  return {item.priority(), item.id()};
}

// Returns the image's content, in its order.
std::vector<std::pair<Place, Item>> Replay(const std::string& image, const SourceSlice& end) {
  std::vector<std::pair<Place, Item>> items;
  std::set<Place> met;
  std::set<Place> gone;
  ImageDecoder decoder;
  Bytes rest = AsBytes(image);
  ImageItem item;
  std::pair<Place, Item> large;
  for (;;) {
    const auto taken = decoder.Next(&rest, &item);
    REQUIRE(taken.ok());
    if (!*taken) break;
    switch (item.kind) {
      case ImageItem::Kind::kPut:
        REQUIRE(met.insert(PlaceOf(item.key)).second);
        items.push_back({PlaceOf(item.key), {std::string(AsText(item.value)), item.expiry_ms}});
        break;
      case ImageItem::Kind::kDelete:
        gone.insert(PlaceOf(item.key));
        break;
      case ImageItem::Kind::kLargeBegin:
        REQUIRE(met.insert(PlaceOf(item.key)).second);
        large = {PlaceOf(item.key), {{}, item.expiry_ms}};
        break;
      case ImageItem::Kind::kLargePart:
        large.second.value += AsText(item.value);
        break;
      case ImageItem::Kind::kLargeEnd:
        items.push_back(std::move(large));
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
  REQUIRE(decoder.ended());
  REQUIRE(rest.empty());
  std::erase_if(items, [&](const auto& each) {
    const std::uint64_t expiry_ms = each.second.expiry_ms;
    return gone.contains(each.first) || (expiry_ms != 0 && expiry_ms <= end.taken_at_ms);
  });
  return items;
}

// The queue that has these pushed into it in their order.
std::vector<std::pair<Place, Item>> Pushed(std::vector<std::pair<Place, Item>> items) {
  std::stable_sort(items.begin(), items.end(),
                   [](const auto& a, const auto& b) { return a.first.first < b.first.first; });
  return items;
}

// Random changes, and their result.
class Changes {
 public:
  Changes(QueueFixture& fixture, test::Random* random, std::size_t large_bytes)
      : fixture_(fixture),
        by_priority_(fixture.partition->kind() == Kind::kPriority),
        random_(*random),
        large_bytes_(large_bytes) {}

  // `pushes` of a hundred are pushes.
  void Make(std::uint64_t count, std::uint64_t pushes) {
    for (std::uint64_t i = 0; i < count; ++i) One(pushes);
  }
  // Returns the items at a moment, in the order of delivery.
  std::vector<std::pair<Place, Item>> At(std::uint64_t now_ms) const {
    std::vector<std::pair<Place, Item>> items;
    for (const auto& [place, item] : items_) {
      if (item.expiry_ms == 0 || item.expiry_ms > now_ms) items.push_back({place, item});
    }
    return items;
  }

 private:
  void One(std::uint64_t pushes) {
    if (random_.Below(100) < pushes) return Push();
    switch (random_.Below(8)) {
      case 0:
      case 1:
        return Remove(fixture_.Pop(1 + random_.Below(4)));
      case 2:
      case 3:
      case 4:
        return Lease();
      case 5:
        return End(true);
      case 6:
        return End(false);
      default:
        fixture_.AdvanceMs(random_.Below(20));
        if (random_.OneIn(2)) fixture_.core->BackgroundSlice(1'000'000);
    }
  }
  void Push() {
    PushOptions options;
    options.priority = by_priority_ ? random_.Below(6) << (8 * random_.Below(3)) : 0;
    if (random_.OneIn(6)) options.ttl_ms = 1 + random_.Below(400);
    const std::size_t bytes = random_.OneIn(40) ? random_.Below(large_bytes_) : random_.Size(200);
    const auto random = random_.Bytes(bytes);
    const std::string value(AsText(Bytes(random)));
    const std::uint64_t expiry_ms =
        options.ttl_ms == storage::kTtlDefault ? 0 : fixture_.core->NowMs() + options.ttl_ms;
    const storage::PushOutcome outcome = fixture_.Push(value, options);
    if (outcome.code == StatusCode::kOk) {
      items_[{options.priority, outcome.id}] = {value, expiry_ms};
      place_of_[outcome.id] = {options.priority, outcome.id};
      return;
    }
    REQUIRE(outcome.code == StatusCode::kResourceExhausted);
    Remove(fixture_.Pop(50));
  }
  void Lease() {
    for (Seen& item : fixture_.Lease(1 + random_.Below(8), 1 + random_.Below(100))) {
      leased_.push_back(std::move(item));
    }
  }
  // Ends any earlier lease: many leases are over.
  void End(bool ack) {
    if (leased_.empty()) return;
    const std::size_t at = random_.Below(leased_.size());
    const Seen item = std::move(leased_[at]);
    leased_.erase(leased_.begin() + static_cast<std::ptrdiff_t>(at));
    const StatusCode code = ack ? fixture_.Ack(item) : fixture_.Nack(item);
    if (ack && code == StatusCode::kOk) Remove({item});
  }
  void Remove(const std::vector<Seen>& items) {
    for (const Seen& item : items) REQUIRE(items_.erase(place_of_.at(item.id)) == 1);
  }

  QueueFixture& fixture_;
  const bool by_priority_;
  test::Random& random_;
  const std::size_t large_bytes_;
  Model items_;
  std::map<std::uint64_t, Place> place_of_;
  std::vector<Seen> leased_;
};

StoreOptions Small(Kind kind, std::uint64_t memory_bytes, std::uint64_t slots = 0) {
  StoreOptions options = storage::OfKind(kind, storage::TinyStore(memory_bytes));
  options.core.tree_page_bytes = 512;
  options.slots = slots;
  return options;
}

// Takes image after image of a queue that grows and shrinks.
void TakeAgainAndAgain(QueueFixture& fixture, test::Random* random, std::size_t large_bytes,
                       std::uint64_t changes_max, int rounds) {
  Changes changes(fixture, random, large_bytes);
  int slices = 0;
  for (int round = 0; round < rounds; ++round) {
    INFO("round " << round);
    changes.Make(500 + random->Below(4'000), 40 + random->Below(40));
    ItemSource source(*fixture.core, fixture.partition->id());
    std::string image;
    const std::uint64_t count = random->Below(changes_max);
    const std::uint64_t pushes = random->Below(60);
    const SourceSlice end = Take(fixture, &source, &image, [&] {
      ++slices;
      changes.Make(random->Below(count + 1), pushes);
    });
    REQUIRE(end.code == StatusCode::kOk);
    REQUIRE(end.end == fixture.partition->last_lsn());
    REQUIRE(Pushed(Replay(image, end)) == changes.At(end.taken_at_ms));
    // It notes nothing any more.
    changes.Make(50, 50);
    fixture.core->CheckInvariants();
  }
  REQUIRE(slices > 2 * rounds);
}

// With some seeds the queue is popped as fast as it is filled, and nothing leaves memory: then once
// more with another queue.
void TakeOfOneThatLeavesMemory(const StoreOptions& options, test::Random* random,
                               std::size_t large_bytes, std::uint64_t changes_max, int rounds) {
  constexpr int kTries = 10;
  for (int i = 0; i < kTries; ++i) {
    QueueFixture fixture(options);
    fixture.clock_goes_on = true;
    TakeAgainAndAgain(fixture, random, large_bytes, changes_max, rounds);
    if (fixture.core->counters().spill.spilled_segments > 0 && fixture.fetches > 0) return;
  }
  FAIL("nothing has left memory");
}

TEST_CASE("AnImageOfAQueueIsTheQueueAsItWasAtItsEnd") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  test::Random random("AnImageOfAQueueIsTheQueueAsItWasAtItsEnd");
  QueueFixture fixture(Small(kind, 16 << 20));
  TakeAgainAndAgain(fixture, &random, 20'000, 200, 30);
}

TEST_CASE("AnImageOfAQueueWithLargeValuesIsTheQueueAsItWasAtItsEnd") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  test::Random random("AnImageOfAQueueWithLargeValuesIsTheQueueAsItWasAtItsEnd");
  StoreOptions options = storage::OfKind(kind, storage::TinyStore(128 << 20, 64 * 1024));
  QueueFixture fixture(options);
  TakeAgainAndAgain(fixture, &random, 300'000, 30, 20);
}

TEST_CASE("AnImageOfAQueueThatLeavesMemoryIsTheQueueAsItWasAtItsEnd") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  test::Random random("AnImageOfAQueueThatLeavesMemoryIsTheQueueAsItWasAtItsEnd");
  TakeOfOneThatLeavesMemory(Small(kind, 300 << 10, 4'000), &random, 1'500, 200, 10);
}

// With this seed a push waits for room while the only segment that can leave is hardly used. It was
// sealed and compacted into a new segment, again and again, and the push waited without end.
TEST_CASE("AHardlyUsedSegmentLeavesForWhoWaits") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  test::Random random("AHardlyUsedSegmentLeavesForWhoWaits", 2858999593);
  TakeOfOneThatLeavesMemory(Small(kind, 300 << 10, 4'000), &random, 1'500, 200, 10);
}

TEST_CASE("AnImageOfAQueueWhoseLargeValuesLeaveMemoryIsTheQueueAsItWasAtItsEnd") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  test::Random random("AnImageOfAQueueWhoseLargeValuesLeaveMemoryIsTheQueueAsItWasAtItsEnd");
  StoreOptions options = storage::OfKind(kind, storage::TinyStore(12 << 20, 64 * 1024));
  options.slots = 4'000;
  TakeOfOneThatLeavesMemory(options, &random, 300'000, 30, 8);
}

std::string ValuesOf(const std::vector<std::pair<Place, Item>>& items) {
  std::string text;
  for (const auto& [place, item] : items) text += (text.empty() ? "" : " ") + item.value;
  return text;
}

TEST_CASE("WhatIsLeasedAndWhatHasComeBackStandsAtItsPlace") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  QueueFixture fixture(storage::OfKind(kind));
  for (const char* value : {"a", "b", "c", "d"}) fixture.PushAt(7, value);
  const std::vector<Seen> leased = fixture.Lease(3, 1'000);
  REQUIRE(fixture.Nack(leased[1]) == StatusCode::kOk);
  fixture.PushAt(7, "e");
  if (kind == Kind::kPriority) fixture.PushAt(3, "first");
  ItemSource source(*fixture.core, fixture.partition->id());
  std::string image;
  const SourceSlice end = Take(fixture, &source, &image);
  REQUIRE(ValuesOf(Pushed(Replay(image, end))) ==
          (kind == Kind::kPriority ? "first a b c d e" : "a b c d e"));
  // The leases go on.
  REQUIRE(fixture.Ack(leased[0]) == StatusCode::kOk);
}

TEST_CASE("AnItemThatIsLeasedInFrontOfTheWalkGoesBeforeThoseBehindIt") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  QueueFixture fixture(storage::OfKind(kind));
  std::string expected;
  for (int i = 0; i < 1'000; ++i) {
    fixture.PushAt(1, std::to_string(i));
    expected += (i == 0 ? "" : " ") + std::to_string(i);
  }
  ItemSource source(*fixture.core, fixture.partition->id());
  std::string image;
  const SourceSlice end = Take(fixture, &source, &image, [&] { fixture.Lease(300, 1'000); });
  REQUIRE(end.entries == 1'000);
  REQUIRE(ValuesOf(Replay(image, end)) == expected);
}

TEST_CASE("WhatIsPushedBehindTheWalkKeepsItsOrder") {
  QueueFixture fixture(storage::OfKind(Kind::kPriority, storage::TinyStore(64 << 20, 64 * 1024)));
  for (int i = 0; i < 1'000; ++i) fixture.PushAt(5, "w");
  ItemSource source(*fixture.core, fixture.partition->id());
  std::string image;
  int slices = 0;
  const std::string large(600'000, 'l');
  const SourceSlice end = Take(fixture, &source, &image, [&] {
    if (++slices != 3) return;
    fixture.PushAt(1, large);
    fixture.PushAt(1, "after");
    fixture.PushAt(5, "last");
  });
  const auto items = Pushed(Replay(image, end));
  REQUIRE(items.size() == 1'003);
  REQUIRE(items[0].second.value == large);
  REQUIRE(items[1].second.value == "after");
  REQUIRE(items.back().second.value == "last");
}

TEST_CASE("ALargeItemThatIsPoppedOnItsWayIsNotThere") {
  QueueFixture fixture(storage::OfKind(Kind::kQueue, storage::TinyStore(64 << 20, 64 * 1024)));
  fixture.Push(std::string(2 << 20, 'a'));
  fixture.Push("b");
  ItemSource source(*fixture.core, fixture.partition->id());
  std::string image;
  int slices = 0;
  const SourceSlice end = Take(fixture, &source, &image, [&] {
    if (++slices == 3) REQUIRE(fixture.Pop().size() == 1);
  });
  REQUIRE(slices == 3);
  REQUIRE(ValuesOf(Replay(image, end)) == "b");
}

TEST_CASE("ChangesOfAQueueInFrontOfTheWalkAreNotNoted") {
  QueueFixture fixture;
  ItemSource source(*fixture.core, fixture.partition->id());
  for (int i = 0; i < 1'000; ++i) fixture.Push("v");
  fixture.Pop(400);
  std::string image;
  const SourceSlice end = Take(fixture, &source, &image);
  REQUIRE(end.entries == 600);
}

TEST_CASE("AnImageOfAQueueThatGrowsFasterThanItIsTakenIsGivenUp") {
  QueueFixture fixture;
  ItemSource source(*fixture.core, fixture.partition->id());
  std::string image;
  // More than the walk can ever finish; nothing of the image stays.
  const std::string value(100'000, 'x');
  std::uint64_t pushed = 0;
  const auto push = [&] {
    for (int i = 0; i < 8; ++i) {
      REQUIRE(fixture.Push(value).code == StatusCode::kOk);
      pushed += value.size();
    }
    while (fixture.Length().first > 200) fixture.Pop();
  };
  push();
  const SourceSlice end = Take(fixture, &source, &image, push);
  REQUIRE(end.code == StatusCode::kResourceExhausted);
  REQUIRE(end.items.empty());
  REQUIRE(pushed < 4 * PartitionSource::kUntakenBytesMax);
}

TEST_CASE("RemovalsOfWhatTheWalkHasPassedAreNoted") {
  QueueFixture fixture;
  for (int i = 0; i < 300; ++i) fixture.Push(std::string(1'000, 'x'));
  ItemSource source(*fixture.core, fixture.partition->id());
  SourceSlice slice;
  source.Slice(&slice);  // Finds delivered items.
  source.Slice(&slice);
  REQUIRE_FALSE(slice.done);
  REQUIRE(fixture.Pop(100).size() == 100);
  slice = {};
  source.Slice(&slice);
  REQUIRE(slice.code == StatusCode::kOk);
  REQUIRE(slice.done);
  REQUIRE(slice.entries == 300 + 100);
}

TEST_CASE("AnImageOfAQueueThatNobodyTakesIsGivenUp") {
  StoreOptions options = storage::OfKind(Kind::kPriority);
  options.memory_bytes = 1ull << 30;
  QueueFixture fixture(options);
  for (int i = 0; i < 600; ++i) fixture.PushAt(5, "v");
  ItemSource source(*fixture.core, fixture.partition->id());
  SourceSlice slice;
  for (int i = 0; i < 2; ++i) source.Slice(&slice);
  REQUIRE_FALSE(slice.done);
  // Behind the walk, some 50 bytes of the heap each.
  for (std::size_t i = 0; i < PartitionSource::kUntakenBytesMax / 40; ++i) fixture.PushAt(1, "v");
  source.Slice(&slice);
  REQUIRE(slice.code == StatusCode::kResourceExhausted);
  REQUIRE(slice.items.empty());
  REQUIRE_FALSE(slice.done);
}

TEST_CASE("AnItemThatCannotBeReadFailsTheImage") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  QueueFixture fixture(Small(kind, 300 << 10, 2'000));
  for (int i = 0; i < 5'000; ++i) {
    fixture.Push(std::string(200, 'x'));
    fixture.core->BackgroundSlice(1'000'000);
    fixture.core->Poll();
  }
  REQUIRE(fixture.core->counters().spill.spilled_segments > 0);
  storage::FaultRule rule;
  rule.operation = storage::DeviceOperation::kRead;
  rule.error = EIO;
  rule.times = UINT64_MAX;
  fixture.device->AddRule(rule);
  ItemSource source(*fixture.core, fixture.partition->id());
  std::string image;
  const SourceSlice end = Take(fixture, &source, &image);
  REQUIRE(end.code == StatusCode::kDeviceError);
  REQUIRE_FALSE(end.done);
}

TEST_CASE("AnImageOfAQueueUnderAnotherTermIsGivenUp") {
  QueueFixture fixture;
  fixture.Push("v");
  ItemSource source(*fixture.core, fixture.partition->id());
  fixture.partition->SetTerm(Term(2));
  SourceSlice slice;
  source.Slice(&slice);
  REQUIRE(slice.code == StatusCode::kAborted);
}

}  // namespace
}  // namespace tidepool::daemon::snapshot
