// The arriving image of a partition that moves, and invalid pieces.
#include "storage/partition_image.h"

#include <catch2/catch.hpp>

#include "proto/base/key_hash.h"
#include "tests/storage/image_copy.h"
#include "tests/storage/queue_fixture.h"
#include "tests/support/random.h"

namespace tidepool::storage {
namespace {

const PartitionId kId(NamespaceId(1), 0);

// The queue of `from` on a core of its own.
struct Moved : QueueFixture {
  explicit Moved(QueueFixture& from, const StoreOptions& options) : QueueFixture(options) {
    core->DropPartition(kId);
    REQUIRE(CopyImage(*from.core, *core, kId, options.partition) == StatusCode::kOk);
    partition = core->Adopt(kId, Term(from.partition->term().value() + 1));
    REQUIRE(partition != nullptr);
    queue = &partition->queue();
    core->CheckInvariants();
  }
};

TEST_CASE("AMovedQueueHasItsItemsLeasesAndNumbers") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  QueueFixture from(OfKind(kind));
  for (const char* value : {"a", "b", "c", "", "e"}) from.Push(value);
  const std::vector<Seen> leased = from.Lease(3, 1000);
  REQUIRE(from.Nack(leased[1]) == StatusCode::kOk);
  from.AdvanceMs(400);
  Moved to(from, OfKind(kind));
  CHECK(QueueFixture::Values(to.Peek()) == "b  e");
  CHECK(to.Length() == std::pair<std::uint64_t, std::uint64_t>{3, 2});
  CHECK(to.queue->ConsumerOf(leased[0].id) == 7);
  CHECK(to.Ack(leased[0]) == StatusCode::kOk);
  CHECK(to.Ack(leased[1]) == StatusCode::kFailedPrecondition);
  to.AdvanceMs(599);
  CHECK(to.Length().second == 1);
  to.AdvanceMs(1);
  CHECK(to.Ack(leased[2]) == StatusCode::kFailedPrecondition);
  const std::vector<Seen> again = to.Lease(2);
  CHECK(again[0] == Seen{2, 2, "b"});
  CHECK(again[1] == Seen{3, 2, "c"});
  const PushOutcome pushed = to.Push("next");
  CHECK(pushed.id == 6);
  CHECK(pushed.version > from.partition->last_lsn());
}

TEST_CASE("AMovedQueueGivesNoIdTwice") {
  QueueFixture from;
  {
    Moved unused(from, OfKind(Kind::kQueue));
    CHECK(unused.Push("first of all").id > 0);
  }
  from.partition->Thaw();
  const std::uint64_t id = from.Push("gone").id;
  from.Pop();
  Moved emptied(from, OfKind(Kind::kQueue));
  CHECK(emptied.Push("next").id == id + 1);
}

TEST_CASE("AMovedQueueHasItsLargeValues") {
  // Values of several segments, of several pieces, and some that just fit or just do not.
  const StoreOptions options = OfKind(Kind::kQueue);
  QueueFixture from(options);
  std::vector<std::string> values;
  for (const std::size_t bytes :
       {std::size_t{1}, limits::kUnstreamedValueBytesMax, limits::kUnstreamedValueBytesMax + 1,
        kImagePieceBytes, std::size_t{5} << 20, std::size_t{2} << 20, std::size_t{0}}) {
    std::string value(bytes, '\0');
    for (std::size_t i = 0; i < bytes; ++i) value[i] = static_cast<char>(i * 31 >> 3);
    values.push_back(std::move(value));
    REQUIRE(from.Push(values.back()).code == StatusCode::kOk);
  }
  Moved to(from, options);
  const std::vector<Seen> seen = to.Pop(100);
  REQUIRE(seen.size() == values.size());
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(seen[i].value == values[i]);
}

TEST_CASE("WhatIsLeftOfALifeIsLeftAfterAMove") {
  QueueFixture from;
  PushOptions options;
  options.ttl_ms = 100;
  from.Push("short", options);
  options.ttl_ms = 1000;
  from.Push("long", options);
  from.Push("for ever");
  from.AdvanceMs(100);
  Moved to(from, OfKind(Kind::kQueue));
  CHECK(QueueFixture::Values(to.Peek()) == "long for ever");
  to.AdvanceMs(899);
  CHECK(to.Peek().size() == 2);
  to.AdvanceMs(1);
  CHECK(QueueFixture::Values(to.Pop(9)) == "for ever");
}

TEST_CASE("AnImageOfManyItemsComesInPiecesOfBoundedWork") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  QueueFixture from(OfKind(kind));
  constexpr std::uint64_t kItems = 10'000;
  for (std::uint64_t i = 0; i < kItems; ++i) from.PushAt(i * 7919 % 100, std::to_string(i));
  const std::vector<std::string> pieces = PiecesOf(*from.core, kId);
  CHECK(pieces.size() >= kItems / 1'024);
  ImageWriter writer(*from.core, kId);
  std::string room(kImagePieceBytes, '\0');
  bool ok = true;
  writer.Next({reinterpret_cast<std::byte*>(room.data()), room.size()}, from.core->NowMs(), &ok);
  CHECK(writer.entries_total() == kItems);
  CHECK(writer.entries_done() <= 1'024);
  from.partition->Thaw();
  writer.Next({reinterpret_cast<std::byte*>(room.data()), room.size()}, from.core->NowMs(), &ok);
  CHECK_FALSE(ok);
}

TEST_CASE("AMovedFilterHasAllBitsAndTheRoomOfTheFirst") {
  StoreOptions options = OfKind(Kind::kBloom);
  options.partition.filter = ShapeOfFilter(100'000, 0.01).value();
  StoreFixture from(options);
  StoreFixture to(options);
  to.core->DropPartition(kId);
  for (std::uint64_t i = 0; i < 50'000; ++i) {
    from.partition->bloom().InsertAndTell(KeyHash(AsBytes(std::to_string(i))));
  }
  REQUIRE(CopyImage(*from.core, *to.core, kId, options.partition) == StatusCode::kOk);
  to.partition = to.core->Adopt(kId, Term(2));
  to.core->CheckInvariants();
  CHECK(to.partition->bloom().filter().bits_set() == from.partition->bloom().filter().bits_set());
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    const std::uint64_t hash = KeyHash(AsBytes(std::to_string(i)));
    REQUIRE(to.partition->bloom().Contains(hash) == from.partition->bloom().Contains(hash));
  }
}

TEST_CASE("AnIncomingPartitionIsSeenByNobodyUntilItIsAdopted") {
  QueueFixture from;
  from.Push("a");
  StoreFixture to(OfKind(Kind::kQueue));
  CHECK(to.core->AddIncoming(kId, Term(1), OfKind(Kind::kQueue).partition).code() ==
        StatusCode::kAlreadyExists);
  to.core->DropPartition(kId);
  REQUIRE(CopyImage(*from.core, *to.core, kId, OfKind(Kind::kQueue).partition) == StatusCode::kOk);
  CHECK(to.core->Find(kId) == nullptr);
  to.core->DropIncoming(kId);
  CHECK(to.core->FindIncoming(kId) == nullptr);
  CHECK(to.core->Adopt(kId, Term(2)) == nullptr);
  to.Settle();
  to.core->CheckInvariants();
  CHECK(to.core->usage().live_bytes == 0);
}

TEST_CASE("PiecesOutOfOrderTwiceOrOfAnotherKindAreRefused") {
  QueueFixture from;
  for (int i = 0; i < 3'000; ++i) from.Push(std::to_string(i));
  const std::vector<std::string> pieces = PiecesOf(*from.core, kId);
  REQUIRE(pieces.size() == 3);
  const auto apply = [&](Kind kind, const std::vector<std::size_t>& order) {
    StoreOptions options = OfKind(kind);
    options.partition.filter = ShapeOfFilter(1'000, 0.01).value();
    StoreFixture to(options);
    to.core->DropPartition(kId);
    REQUIRE(to.core->AddIncoming(kId, Term(1), options.partition).ok());
    ImageReader reader(*to.core, kId);
    StatusCode code = StatusCode::kOk;
    for (const std::size_t piece : order) {
      if (code == StatusCode::kOk) code = reader.Apply(AsBytes(pieces[piece]), to.core->NowMs());
    }
    to.core->CheckInvariants();
    return code == StatusCode::kOk && !reader.complete() ? StatusCode::kCancelled : code;
  };
  CHECK(apply(Kind::kQueue, {0, 1, 2}) == StatusCode::kOk);
  CHECK(apply(Kind::kQueue, {0, 1}) == StatusCode::kCancelled);
  CHECK(apply(Kind::kQueue, {1, 2}) == StatusCode::kInvalidArgument);
  CHECK(apply(Kind::kQueue, {0, 2}) == StatusCode::kInvalidArgument);
  CHECK(apply(Kind::kQueue, {0, 1, 1, 2}) == StatusCode::kInvalidArgument);
  CHECK(apply(Kind::kQueue, {0, 1, 2, 2}) == StatusCode::kInvalidArgument);
  CHECK(apply(Kind::kQueue, {0, 0}) == StatusCode::kInvalidArgument);
  CHECK(apply(Kind::kPriority, {0, 1, 2}) == StatusCode::kInvalidArgument);
  CHECK(apply(Kind::kBloom, {0, 1, 2}) == StatusCode::kInvalidArgument);
}

// Every piece of bytes gives an answer, and leaves a store that is sound.
TEST_CASE("DamagedPiecesEndWithAnAnswer") {
  test::Random random("DamagedPiecesEndWithAnAnswer");
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority, Kind::kBloom);
  StoreOptions options = OfKind(kind, TinyStore(2 << 20));
  options.partition.filter = ShapeOfFilter(1'000, 0.01).value();
  StoreFixture from(options);
  for (int i = 0; i < 50; ++i) {
    if (kind == Kind::kBloom) {
      from.partition->bloom().InsertAndTell(random.Word());
    } else {
      from.partition->queue().Push(AsBytes(std::string(random.Below(3'000), 'v')), {},
                                   from.core->NowMs());
    }
  }
  const std::string piece = PiecesOf(*from.core, kId).front();
  for (int round = 0; round < 2'000; ++round) {
    StoreFixture to(options);
    to.core->DropPartition(kId);
    REQUIRE(to.core->AddIncoming(kId, Term(1), options.partition).ok());
    ImageReader reader(*to.core, kId);
    std::string damaged = piece;
    for (std::uint64_t i = 0; i <= random.Below(3); ++i) {
      damaged[random.Below(damaged.size())] = static_cast<char>(random.Word());
    }
    if (random.OneIn(3)) damaged.resize(random.Below(damaged.size()));
    const StatusCode code = reader.Apply(AsBytes(damaged), to.core->NowMs());
    REQUIRE((code == StatusCode::kOk || code == StatusCode::kInvalidArgument ||
             code == StatusCode::kResourceExhausted));
  }
}

}  // namespace
}  // namespace tidepool::storage
