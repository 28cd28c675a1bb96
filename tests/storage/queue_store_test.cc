// Queues by arrival and by priority: order, leases and their ends, bounds, expiry, memory,
// dropping.
#include "storage/queue_store.h"

#include <catch2/catch.hpp>

#include "tests/storage/queue_fixture.h"

namespace tidepool::storage {
namespace {

using Lengths = std::pair<std::uint64_t, std::uint64_t>;

TEST_CASE("ItemsArePoppedInTheOrderOfTheirPushes") {
  QueueFixture fixture;
  for (const char* value : {"a", "", "c", "d"}) {
    REQUIRE(fixture.Push(value).code == StatusCode::kOk);
  }
  REQUIRE(fixture.Pop() == std::vector<Seen>{{1, 0, "a"}});
  REQUIRE(fixture.Pop(2) == std::vector<Seen>{{2, 0, ""}, {3, 0, "c"}});
  REQUIRE(fixture.Push("e").id == 5);
  REQUIRE(QueueFixture::Values(fixture.Pop(10)) == "d e");
  REQUIRE(fixture.Pop().empty());
  fixture.core->CheckInvariants();
}

TEST_CASE("LeastPriorityIsPoppedFirstAndEqualsInTheOrderOfTheirPushes") {
  QueueFixture fixture(OfKind(Kind::kPriority));
  fixture.PushAt(300, "c1");
  fixture.PushAt(2, "b1");
  fixture.PushAt(300, "c2");
  fixture.PushAt(0, "a1");
  fixture.PushAt(~0ull, "z");
  fixture.PushAt(2, "b2");
  REQUIRE(QueueFixture::Values(fixture.Peek()) == "a1 b1 b2 c1 c2 z");
  REQUIRE(QueueFixture::Values(fixture.Pop(4)) == "a1 b1 b2 c1");
  fixture.PushAt(1, "late");
  REQUIRE(QueueFixture::Values(fixture.Pop(4)) == "late c2 z");
  fixture.core->CheckInvariants();
}

TEST_CASE("ItemThatTheVisitorRefusesStaysInItsPlace") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  QueueFixture fixture(OfKind(kind));
  for (const char* value : {"a", "b", "c"}) fixture.Push(value);
  int calls = 0;
  const auto refuse_second = [&](const QueueItem&) { return ++calls < 2; };
  REQUIRE(fixture.queue->Pop(10, fixture.core->NowMs(), refuse_second).items == 1);
  calls = 0;
  REQUIRE(fixture.queue->LeasePop(10, {100, 1}, fixture.core->NowMs(), refuse_second).items == 1);
  REQUIRE(fixture.Length() == Lengths{1, 1});
  REQUIRE(QueueFixture::Values(fixture.Peek()) == "c");
}

TEST_CASE("PeekChangesNothing") {
  QueueFixture fixture;
  for (const char* value : {"a", "b", "c"}) fixture.Push(value);
  const Lsn before = fixture.partition->last_lsn();
  REQUIRE(QueueFixture::Values(fixture.Peek(2)) == "a b");
  REQUIRE(fixture.partition->last_lsn() == before);
  REQUIRE(QueueFixture::Values(fixture.Pop(3)) == "a b c");
}

TEST_CASE("AckedItemIsGone") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  QueueFixture fixture(OfKind(kind));
  fixture.Push("a");
  fixture.Push("b");
  const std::vector<Seen> leased = fixture.Lease();
  REQUIRE(leased == std::vector<Seen>{{1, 1, "a"}});
  REQUIRE(fixture.Length() == Lengths{1, 1});
  REQUIRE(fixture.queue->ConsumerOf(1) == 7);
  REQUIRE(fixture.Ack(leased[0]) == StatusCode::kOk);
  REQUIRE(fixture.Ack(leased[0]) == StatusCode::kNotFound);
  REQUIRE(fixture.Length() == Lengths{1, 0});
  REQUIRE(!fixture.queue->ConsumerOf(1).has_value());
  fixture.AdvanceMs(1000);
  REQUIRE(QueueFixture::Values(fixture.Pop(10)) == "b");
  REQUIRE(fixture.queue->delivered_bytes() == 0);
  fixture.core->CheckInvariants();
}

TEST_CASE("NackedItemGoesBackToItsPlace") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  QueueFixture fixture(OfKind(kind));
  for (const char* value : {"a", "b", "c", "d"}) fixture.Push(value);
  const std::vector<Seen> leased = fixture.Lease(3);
  REQUIRE(fixture.Nack(leased[1]) == StatusCode::kOk);
  REQUIRE(fixture.Nack(leased[1]) == StatusCode::kFailedPrecondition);
  REQUIRE(fixture.Nack(leased[0]) == StatusCode::kOk);
  REQUIRE(fixture.Peek() == std::vector<Seen>{{1, 1, "a"}, {2, 1, "b"}, {4, 0, "d"}});
  REQUIRE(fixture.Lease(2) == std::vector<Seen>{{1, 2, "a"}, {2, 2, "b"}});
  fixture.core->CheckInvariants();
}

TEST_CASE("OverdueLeaseEndsAndItsCountNoLongerAcks") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  QueueFixture fixture(OfKind(kind));
  fixture.Push("a");
  fixture.Push("b");
  REQUIRE(fixture.queue->NextTimeoutMs() == kNeverMs);
  const Seen first = fixture.Lease(1, 100).at(0);
  REQUIRE(fixture.queue->NextTimeoutMs() == fixture.core->NowMs() + 100);
  fixture.AdvanceMs(99);
  REQUIRE(QueueFixture::Values(fixture.Peek()) == "b");
  fixture.AdvanceMs(1);
  REQUIRE(fixture.Ack(first) == StatusCode::kFailedPrecondition);
  const Seen again = fixture.Lease().at(0);
  REQUIRE(again == Seen{1, 2, "a"});
  REQUIRE(fixture.Ack(first) == StatusCode::kFailedPrecondition);
  REQUIRE(fixture.Nack(first) == StatusCode::kFailedPrecondition);
  REQUIRE(fixture.Ack(again) == StatusCode::kOk);
  REQUIRE(fixture.Ack({99, 1, ""}) == StatusCode::kNotFound);
  fixture.core->CheckInvariants();
}

TEST_CASE("LeaseWithoutVisibilityIsRefused") {
  QueueFixture fixture;
  fixture.Push("a");
  const QueueProgress progress = fixture.queue->LeasePop(1, {0, 1}, fixture.core->NowMs(),
                                                         [](const QueueItem&) { return true; });
  REQUIRE(progress.code == StatusCode::kInvalidArgument);
  REQUIRE(fixture.Length() == Lengths{1, 0});
}

TEST_CASE("LeaseThatNeverEndsIsNoTimeout") {
  QueueFixture fixture;
  fixture.Push("a");
  const Seen item = fixture.Lease(1, ~0ull).at(0);
  REQUIRE(fixture.queue->NextTimeoutMs() == kNeverMs);
  REQUIRE(fixture.Ack(item) == StatusCode::kOk);
}

TEST_CASE("FullQueueRefusesAndSaysWhy") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  StoreOptions options = OfKind(kind);
  options.partition.queue.capacity = 3;
  QueueFixture fixture(options);
  for (const char* value : {"a", "b", "c"}) fixture.Push(value);
  const auto full = [&] {
    const PushOutcome outcome = fixture.Push("d");
    return outcome.code == StatusCode::kResourceExhausted && outcome.at_capacity;
  };
  REQUIRE(full());
  const Seen item = fixture.Lease().at(0);
  REQUIRE(full());  // A leased item may come back.
  REQUIRE(fixture.Ack(item) == StatusCode::kOk);
  REQUIRE(fixture.Push("d").code == StatusCode::kOk);
  REQUIRE(full());
}

TEST_CASE("ExpiredItemIsNeitherDeliveredNorInTheWayOfAPush") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  StoreOptions options = OfKind(kind);
  options.partition.ttl_ms = 50;
  options.partition.queue.capacity = 2;
  QueueFixture fixture(options);
  fixture.Push("short");
  PushOptions lasting;
  lasting.ttl_ms = kTtlNone;
  fixture.Push("lasting", lasting);
  fixture.AdvanceMs(50);
  REQUIRE(QueueFixture::Values(fixture.Peek()) == "lasting");
  REQUIRE(fixture.Push("new").code == StatusCode::kOk);
  REQUIRE(QueueFixture::Values(fixture.Pop(5)) == "lasting new");
  fixture.core->CheckInvariants();
}

TEST_CASE("ItemThatExpiresUnderItsLeaseCanBeAckedButIsNotDeliveredAgain") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  StoreOptions options = OfKind(kind);
  options.partition.ttl_ms = 50;
  QueueFixture fixture(options);
  fixture.Push("a");
  fixture.Push("b");
  const std::vector<Seen> leased = fixture.Lease(2, 5000);
  fixture.AdvanceMs(2000);
  fixture.Settle();  // The sweep leaves them.
  REQUIRE(fixture.Length() == Lengths{0, 2});
  REQUIRE(fixture.Ack(leased[0]) == StatusCode::kOk);
  REQUIRE(fixture.Nack(leased[1]) == StatusCode::kOk);
  REQUIRE(fixture.Pop().empty());
  REQUIRE(fixture.Length() == Lengths{0, 0});
}

TEST_CASE("SweepRemovesExpiredItemsFromTheMiddle") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  QueueFixture fixture(OfKind(kind));
  PushOptions brief;
  brief.ttl_ms = 10;
  for (int i = 0; i < 2000; ++i) {
    fixture.Push(std::to_string(i), i % 500 == 0 ? PushOptions() : brief);
  }
  fixture.AdvanceMs(2000);
  fixture.Settle();
  REQUIRE(fixture.Length() == Lengths{4, 0});
  fixture.core->CheckInvariants();
  REQUIRE(QueueFixture::Values(fixture.Pop(5)) == "0 500 1000 1500");
}

TEST_CASE("CallEndsAtItsOwnBoundAndSaysSo") {
  QueueFixture fixture;
  PushOptions brief;
  brief.ttl_ms = 10;
  for (int i = 0; i < 5000; ++i) fixture.Push("v", brief);
  fixture.Push("last");
  fixture.AdvanceMs(10);
  const auto take = [](const QueueItem&) { return true; };
  QueueProgress progress = fixture.queue->Pop(1, fixture.core->NowMs(), take);
  REQUIRE(progress.items == 0);
  REQUIRE(progress.more);
  progress = fixture.queue->Pop(1, fixture.core->NowMs(), take);
  REQUIRE(progress.items == 1);
  REQUIRE(!progress.more);
  for (int i = 0; i < 5000; ++i) fixture.Push("v");
  progress = fixture.queue->Pop(~0ull, fixture.core->NowMs(), take);
  REQUIRE(progress.items == 4096);
  REQUIRE(progress.more);
}

TEST_CASE("DeliveredItemsAreBounded") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  StoreOptions options = OfKind(kind);
  options.partition.queue.delivered_max = 2;
  QueueFixture fixture(options);
  for (const char* value : {"a", "b", "c"}) fixture.Push(value);
  const std::vector<Seen> leased = fixture.Lease(2);
  const auto take = [](const QueueItem&) { return true; };
  QueueProgress progress = fixture.queue->LeasePop(2, {100, 1}, fixture.core->NowMs(), take);
  REQUIRE(progress.code == StatusCode::kResourceExhausted);
  REQUIRE(progress.items == 0);
  // An item that was delivered before needs no new place.
  REQUIRE(fixture.Nack(leased[0]) == StatusCode::kOk);
  progress = fixture.queue->LeasePop(2, {100, 1}, fixture.core->NowMs(), take);
  REQUIRE(progress.items == 1);
  REQUIRE(progress.code == StatusCode::kResourceExhausted);
  REQUIRE(QueueFixture::Values(fixture.Pop()) == "c");
}

TEST_CASE("ItemsWhoseLeasesEndedGoBeforeBetterOnesOnceTheTableIsFull") {
  StoreOptions options = OfKind(Kind::kPriority);
  options.partition.queue.delivered_max = 2;
  QueueFixture fixture(options);
  fixture.PushAt(5, "a");
  fixture.PushAt(5, "b");
  const std::vector<Seen> leased = fixture.Lease(2);
  fixture.PushAt(1, "urgent");
  REQUIRE(fixture.Lease().empty());
  for (const Seen& item : leased) REQUIRE(fixture.Nack(item) == StatusCode::kOk);
  // "urgent" has no place in the table, and delivered items must leave the table.
  const std::vector<Seen> again = fixture.Lease();
  REQUIRE(QueueFixture::Values(again) == "a");
  REQUIRE(fixture.Ack(again.at(0)) == StatusCode::kOk);
  REQUIRE(QueueFixture::Values(fixture.Lease()) == "urgent");
  REQUIRE(QueueFixture::Values(fixture.Pop()) == "b");
  fixture.queue->CheckInvariants();
}

TEST_CASE("AQueueThatStartsAnewUnderALaterTermGivesNoIdASecondTime") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  QueueFixture fixture(OfKind(kind));
  fixture.Push("lost");
  const Seen lost = fixture.Lease().at(0);
  REQUIRE(lost.id == 1);
  PartitionOptions options;
  options.kind = kind;
  Partition* later =
      fixture.core->AddPartition(PartitionId(NamespaceId(2), 0), Term(2), options).value();
  fixture.queue = &later->queue();
  fixture.Push("other");
  const Seen other = fixture.Lease().at(0);
  REQUIRE(other.id > 1ull << 39);
  REQUIRE(fixture.Ack(lost) == StatusCode::kNotFound);
  REQUIRE(fixture.Push("next").id == other.id + 1);
  later->SetTerm(Term(3));  // Goes on with its items: ids stay dense.
  REQUIRE(fixture.Push("third").id == other.id + 2);
  fixture.queue->CheckInvariants();
}

TEST_CASE("LargeItemsAreStoredInExtents") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  QueueFixture fixture(OfKind(kind));
  std::string large(5'000'000, 'x');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 31 / 7);
  REQUIRE(fixture.Push(large).code == StatusCode::kOk);
  ValueWriter writer = ValueWriter::Begin(*fixture.core, large.size()).value();
  REQUIRE(writer.Write(0, AsBytes(large)) == StatusCode::kOk);
  REQUIRE(fixture.queue->Push(writer, {}, fixture.core->NowMs()).code == StatusCode::kOk);
  REQUIRE(fixture.Lease().at(0).value == large);
  REQUIRE(fixture.Pop().at(0).value == large);
  fixture.core->CheckInvariants();
  REQUIRE(fixture.Ack({1, 1, ""}) == StatusCode::kOk);
  fixture.Settle();
  REQUIRE(fixture.core->usage().live_bytes == 0);
  fixture.core->CheckInvariants();
}

TEST_CASE("FullMemoryRefusesPushesAndLetsPopsAndAcksGoOn") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  const bool tombstones = GENERATE(false, true);
  StoreOptions options = OfKind(kind, TinyStore(256 << 10));
  options.partition.tombstones = tombstones;
  QueueFixture fixture(options);
  const std::string value(100, 'v');
  std::uint64_t pushed = 0;
  PushOutcome outcome = fixture.PushAt(pushed, value);
  for (; outcome.code == StatusCode::kOk; outcome = fixture.PushAt(pushed, value)) ++pushed;
  REQUIRE(outcome.code == StatusCode::kResourceExhausted);
  REQUIRE(!outcome.at_capacity);
  REQUIRE(pushed > 800);
  fixture.core->CheckInvariants();
  // Every second item is acked, the rest is popped; then all of the memory serves again.
  std::uint64_t next_id = 1;
  while (next_id <= pushed) {
    const Seen item = next_id % 2 == 0 ? fixture.Lease().at(0) : fixture.Pop().at(0);
    REQUIRE(item.id == next_id++);
    if (item.deliveries != 0) REQUIRE(fixture.Ack(item) == StatusCode::kOk);
    if (tombstones) fixture.partition->DropTombstonesBelow(fixture.partition->last_lsn());
  }
  REQUIRE(fixture.queue->size() == 0);
  fixture.core->CheckInvariants();
  for (std::uint64_t i = 0; i < pushed * 9 / 10; ++i) {
    REQUIRE(fixture.PushAt(i, value).code == StatusCode::kOk);
  }
  fixture.core->CheckInvariants();
}

TEST_CASE("DroppedQueueIsFreedInSlices") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  QueueFixture fixture(OfKind(kind, TinyStore(4 << 20)));
  for (std::uint64_t i = 0; i < 3000; ++i) {
    REQUIRE(fixture.PushAt(i % 10, std::string(i % 300, 'v')).code == StatusCode::kOk);
  }
  const std::vector<Seen> leased = fixture.Lease(50);
  for (std::size_t i = 0; i < leased.size(); i += 2) {
    REQUIRE(fixture.Nack(leased[i]) == StatusCode::kOk);
  }
  QueueStore& store = *fixture.queue;
  std::uint64_t position = 0;
  int slices = 0;
  for (bool more = true; more; ++slices) {
    int steps = 0;
    more = store.FreeSlice(&position, [&] { return ++steps > 100; });
    fixture.core->CheckInvariants();
  }
  REQUIRE(slices >= 30);
  REQUIRE(store.size() == 0);
  REQUIRE(store.payload_bytes() == 0);
  fixture.core->DropPartition(fixture.partition->id());
  fixture.Settle();
  REQUIRE(fixture.core->usage().live_bytes == 0);
  REQUIRE(fixture.core->usage().index_bytes == 0);
  fixture.core->CheckInvariants();
}

TEST_CASE("DroppedQueueUnderCompactionIsFreed") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  QueueFixture fixture(OfKind(kind, TinyStore(1 << 20)));
  for (std::uint64_t i = 0; i < 2000; ++i) fixture.PushAt(i % 7, std::string(200, 'v'));
  fixture.Lease(30);
  fixture.core->DropPartition(fixture.partition->id());
  // Pushes into another queue reclaim the memory of the dropped queue, before any slice.
  Partition* const other =
      fixture.core
          ->AddPartition(PartitionId(NamespaceId(2), 0), Term(1), fixture.partition->options())
          .value();
  fixture.queue = &other->queue();
  for (int i = 0; i < 3000; ++i) {
    while (fixture.Push(std::string(200, 'w')).code != StatusCode::kOk) {
      REQUIRE(!fixture.Pop(10).empty());
    }
    if (i % 100 == 0) fixture.core->CheckInvariants();
  }
  fixture.Settle();
  fixture.core->CheckInvariants();
}

TEST_CASE("VersionsGrowWithEveryChange") {
  QueueFixture fixture;
  Lsn last = fixture.partition->last_lsn();
  const auto grows = [&] {
    const Lsn now = fixture.partition->last_lsn();
    return now > std::exchange(last, now);
  };
  const Lsn pushed = fixture.Push("a").version;
  REQUIRE(pushed == fixture.partition->last_lsn());
  REQUIRE(grows());
  const Seen item = fixture.Lease().at(0);
  REQUIRE(grows());
  REQUIRE(fixture.Nack(item) == StatusCode::kOk);
  REQUIRE(grows());
  fixture.Pop();
  REQUIRE(grows());
  REQUIRE(fixture.Pop().empty());
  REQUIRE(!grows());
}

// Otherwise the items behind it would never be delivered.
TEST_CASE("AnItemThatCannotBeReadIsToldOfOnceAndGone") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  StoreOptions options = OfKind(kind, TinyStore(64 * 4096));
  options.slots = 2'000;
  QueueFixture fixture(options);
  constexpr int kItems = 1'000;
  for (int i = 0; i < kItems; ++i) {
    REQUIRE(fixture.Push(std::to_string(i) + std::string(500, 'v')).code == StatusCode::kOk);
    fixture.core->BackgroundSlice(1'000'000);
    fixture.core->Poll();
  }
  FaultRule rule;
  rule.operation = DeviceOperation::kRead;
  rule.error = EIO;
  fixture.device->AddRule(rule);
  REQUIRE(fixture.Pop().empty());
  REQUIRE(fixture.lost == StatusCode::kDeviceError);
  for (int i = 1; i < kItems; ++i) {
    const std::vector<Seen> popped = fixture.Pop();
    REQUIRE(popped.size() == 1);
    REQUIRE(popped[0].value == std::to_string(i) + std::string(500, 'v'));
  }
  REQUIRE(fixture.Pop().empty());
  fixture.core->CheckInvariants();
}

TEST_CASE("ManyItemsOnTheDeviceAreShownAtOnce") {
  StoreOptions options = OfKind(Kind::kQueue, TinyStore(64 * 4096));
  options.slots = 2'000;
  QueueFixture fixture(options);
  for (int i = 0; i < 2'000; ++i) {
    REQUIRE(fixture.Push(std::to_string(i) + std::string(200, 'v')).code == StatusCode::kOk);
    fixture.core->BackgroundSlice(1'000'000);
    fixture.core->Poll();
  }
  const std::vector<Seen> seen = fixture.Peek(1'000);
  REQUIRE(seen.size() == 1'000);
  for (int i = 0; i < 1'000; ++i) {
    REQUIRE(seen[static_cast<std::size_t>(i)].value == std::to_string(i) + std::string(200, 'v'));
  }
}

}  // namespace
}  // namespace tidepool::storage
