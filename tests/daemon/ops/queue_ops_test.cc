// The operations on queues, frame by frame: answers, also to repeated requests.
#include "daemon/ops/queue_ops.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "daemon/core/core.h"
#include "daemon/core/sessions.h"
#include "proto/base/limits.h"
#include "proto/wire/queue_ops.h"
#include "proto/wire/reply_room.h"
#include "tests/daemon/raw_client.h"

namespace tidepool::daemon {
namespace {

using wire::Argument;
using wire::Opcode;

constexpr std::uint64_t kMemoryBytes = 256ull << 20;
constexpr std::uint64_t kLongMs = 60'000;  // For a wait or lease that the test ends earlier.

wire::Operation PushOp(std::string_view value, std::uint64_t priority = 0) {
  wire::Operation operation;
  operation.opcode = Opcode::kPush;
  operation.value = AsBytes(value);
  if (priority != 0) operation.set(Argument::kOperand, priority);
  return operation;
}

wire::Operation PopOp(std::uint64_t items_max = 1) {
  wire::Operation operation;
  operation.opcode = Opcode::kPop;
  operation.set(Argument::kOperand, items_max);
  return operation;
}

wire::Operation LeasePopOp(std::uint64_t lease_ms = kLongMs) {
  wire::Operation operation = PopOp();
  operation.set(Argument::kTtlMs, lease_ms);
  return operation;
}

wire::Operation Waiting(wire::Operation operation, std::uint64_t wait_ms = kLongMs) {
  operation.set(Argument::kWaitMs, wait_ms);
  return operation;
}

wire::Operation LeaseOp(Opcode opcode, std::uint64_t id, std::uint64_t deliveries) {
  wire::Operation operation;
  operation.opcode = opcode;
  operation.set(Argument::kOperand, id);
  operation.set(Argument::kCursor, deliveries);
  return operation;
}

wire::Operation On(Opcode opcode) {
  wire::Operation operation;
  operation.opcode = opcode;
  return operation;
}

std::string ListOf(const std::vector<wire::PushedItem>& items) {
  std::string list(64 * 1024, '\0');
  auto* const begin = reinterpret_cast<std::byte*>(list.data());
  std::byte* end = begin;
  for (const wire::PushedItem& item : items) end = wire::AppendPushedItem(item, end);
  list.resize(static_cast<std::size_t>(end - begin));
  return list;
}

wire::Operation PushManyOp(std::string_view list) {
  wire::Operation operation = On(Opcode::kPushMany);
  operation.value = AsBytes(list);
  return operation;
}

// "id=value*deliveries " of each.
std::string Text(const OwnedAnswer& answer) {
  if (answer.answer.code != StatusCode::kOk) return std::string(StatusCodeName(answer.answer.code));
  std::string text;
  wire::DeliveredItem item;
  for (Bytes rest = AsBytes(answer.value); !rest.empty();) {
    REQUIRE(wire::TakeDeliveredItem(&rest, &item).ok());
    text += std::to_string(item.id) + "=" + std::string(AsText(item.value));
    if (item.deliveries != 0) text += "*" + std::to_string(item.deliveries);
    if (item.streamed) text += "...";
    text += " ";
  }
  return text;
}

struct Fixture {
  explicit Fixture(Kind kind = Kind::kQueue, std::uint64_t capacity = 0)
      : node(1, kMemoryBytes, kind, capacity), client(node), other(node) {
    client.Attach();
    other.Attach();
  }
  static OwnedAnswer Ask(RawClient& from, const wire::Operation& operation) {
    const std::uint64_t frame = from.Call({operation});
    OwnedAnswer answer = from.WaitAnswer();
    from.ack_watermark = frame + 1;
    return answer;
  }
  OwnedAnswer Ask(const wire::Operation& operation) { return Ask(client, operation); }
  StatusCode Code(const wire::Operation& operation) { return Ask(operation).answer.code; }
  std::string Items(const wire::Operation& operation) { return Text(Ask(operation)); }
  wire::QueueLengths Length() {
    return wire::LoadQueueLengths(AsBytes(Ask(On(Opcode::kQueueLength)).value)).value();
  }

  // Until the daemon has noticed it.
  void WaitUnconnected(SessionId id) {
    const Deadline deadline = Deadline::AfterMs(60'000);
    for (bool connected = true; connected;) {
      REQUIRE_FALSE(deadline.Passed());
      const Status ran = node.cores().Run(
          CoreId(0),
          [&connected, id](Core& core) {
            const Session* session = core.dispatcher().sessions().Find(id);
            connected = session != nullptr && session->endpoint != nullptr;
          },
          deadline);
      REQUIRE(ran.ok());
    }
  }

  TestNode node;
  RawClient client;
  RawClient other;
};

TEST_CASE("ItemsLeaveInTheOrderInWhichTheyCame") {
  Fixture fixture;
  CHECK(fixture.Items(PopOp()) == "NOT_FOUND");
  CHECK(fixture.Ask(PushOp("a")).answer.number == 1);
  CHECK(fixture.Ask(PushOp("b")).answer.number == 2);
  CHECK(fixture.Code(PushOp("")) == StatusCode::kOk);
  CHECK(fixture.Length().ready == 3);
  CHECK(fixture.Ask(On(Opcode::kLength)).answer.number == 3);
  CHECK(fixture.Items(PopOp(0)) == "INVALID_ARGUMENT");
  CHECK(fixture.Items(PopOp(2)) == "1=a 2=b ");
  CHECK(fixture.Items(PopOp(2)) == "3= ");
}

TEST_CASE("APeekShowsWhatAPopTakes") {
  Fixture fixture;
  for (const char* value : {"a", "b", "c"}) fixture.Ask(PushOp(value));
  wire::Operation peek = PopOp(2);
  peek.opcode = Opcode::kPeek;
  CHECK(fixture.Items(peek) == "1=a 2=b ");
  CHECK(fixture.Items(peek) == "1=a 2=b ");
  CHECK(fixture.Items(PopOp(2)) == "1=a 2=b ");
  CHECK(fixture.Items(PopOp(100)) == "3=c ");
  CHECK(fixture.Items(PopOp(100)) == "NOT_FOUND");
}

TEST_CASE("TheLeastPriorityLeavesFirstAndEqualsInTheirOrder") {
  Fixture fixture(Kind::kPriority);
  fixture.Ask(PushOp("late", 9));
  fixture.Ask(PushOp("first", 3));
  fixture.Ask(PushOp("second", 3));
  fixture.Ask(PushOp("at once"));
  CHECK(fixture.Items(PopOp(10)) == "4=at once 2=first 3=second 1=late ");
}

TEST_CASE("ManyItemsInOneOperationAreTakenInTheirOrder") {
  Fixture fixture;
  const std::string list = ListOf({{0, AsBytes("a")}, {0, {}}, {0, AsBytes("c")}});
  const OwnedAnswer pushed = fixture.Ask(PushManyOp(list));
  CHECK(pushed.answer.number == 3);
  CHECK(wire::LoadPushManyRest(AsBytes(pushed.value))->first_id == 1);
  CHECK(fixture.Items(PopOp(9)) == "1=a 2= 3=c ");
  CHECK(fixture.Ask(PushManyOp({})).answer.number == 0);
}

TEST_CASE("AMalformedListOfItemsLeavesNothingBehind") {
  Fixture fixture;
  std::string list = ListOf({{0, AsBytes("a")}, {0, AsBytes("b")}});
  list.pop_back();
  CHECK(fixture.Code(PushManyOp(list)) == StatusCode::kInvalidArgument);
  CHECK(fixture.Length().ready == 0);
  const std::string too_many =
      ListOf(std::vector<wire::PushedItem>(wire::kPushedItemsMax + 1, wire::PushedItem{}));
  CHECK(fixture.Code(PushManyOp(too_many)) == StatusCode::kInvalidArgument);
  CHECK(fixture.Length().ready == 0);
}

TEST_CASE("AFullQueueRefusesWhatExceedsItsCapacity") {
  Fixture fixture(Kind::kQueue, 2);
  const std::string list = ListOf({{0, AsBytes("a")}, {0, AsBytes("b")}, {0, AsBytes("c")}});
  const OwnedAnswer pushed = fixture.Ask(PushManyOp(list));
  CHECK(pushed.answer.number == 2);
  CHECK(wire::LoadPushManyRest(AsBytes(pushed.value))->at_capacity);
  for (const wire::Operation& push : {PushOp("c"), PushManyOp(list)}) {
    const OwnedAnswer refused = fixture.Ask(push);
    CHECK(refused.answer.code == StatusCode::kResourceExhausted);
    CHECK(refused.answer.number == 2);
  }
  CHECK(fixture.Items(PopOp()) == "1=a ");
  CHECK(fixture.Code(PushOp("d")) == StatusCode::kOk);
  CHECK(fixture.Items(PopOp(9)) == "2=b 3=d ");
}

TEST_CASE("APopThatIsSentAgainIsAnsweredAsTheFirstTime") {
  Fixture fixture;
  RawClient& client = fixture.client;
  const std::string large(300, 'x');  // Kept beside the answer, not in it.
  fixture.Ask(PushOp(large));
  fixture.Ask(PushOp("b"));
  const wire::FrameHeader header = client.NextHeader();
  const std::vector<wire::Operation> pops = {PopOp(), PopOp(5), PopOp()};
  const auto expect = [&] {
    CHECK(Text(client.WaitAnswer()) == "1=" + large + " ");
    CHECK(Text(client.WaitAnswer()) == "2=b ");
    CHECK(Text(client.WaitAnswer()) == "NOT_FOUND");
  };
  client.Send(client.Request(header, fixture.node.term(), pops));
  expect();
  CHECK(Text(Fixture::Ask(fixture.other, PopOp())) == "NOT_FOUND");
  CHECK(Fixture::Ask(fixture.other, PushOp("new")).answer.code == StatusCode::kOk);
  // On the same connection, and after it was cut before the answer was read.
  client.Send(client.Request(header, fixture.node.term(), pops));
  expect();
  client.CutConnection();
  REQUIRE(client.Attach());
  wire::FrameHeader again = header;
  again.connection = client.attached().connection;
  client.Send(client.Request(again, fixture.node.term(), pops));
  expect();
  CHECK(fixture.Items(PopOp()) == "3=new ");
}

TEST_CASE("APushThatIsSentAgainIsPushedOnce") {
  Fixture fixture;
  RawClient& client = fixture.client;
  const wire::FrameHeader header = client.NextHeader();
  const std::string list = ListOf({{0, AsBytes("b")}, {0, AsBytes("c")}});
  const std::vector<wire::Operation> pushes = {PushOp("a"), PushManyOp(list)};
  for (int round = 0; round < 3; ++round) {
    client.Send(client.Request(header, fixture.node.term(), pushes));
    CHECK(client.WaitAnswer().answer.number == 1);
    const OwnedAnswer many = client.WaitAnswer();
    CHECK(many.answer.number == 2);
    CHECK(wire::LoadPushManyRest(AsBytes(many.value))->first_id == 2);
  }
  CHECK(fixture.Items(PopOp(9)) == "1=a 2=b 3=c ");
}

TEST_CASE("AListEndsWhereItsAnswerIsFull") {
  Fixture fixture;
  fixture.client.reply_bytes_max = 2000;
  const std::string value(500, 'v');
  for (int i = 0; i < 5; ++i) fixture.Ask(PushOp(value));
  const OwnedAnswer first = fixture.Ask(PopOp(5));
  CHECK(first.answer.number == 1);
  CHECK(first.value.size() == 3 * (500 + wire::kDeliveredItemHeaderBytes));
  const OwnedAnswer second = fixture.Ask(PopOp(5));
  CHECK(second.answer.number == 0);
  CHECK(second.value.size() == 2 * (500 + wire::kDeliveredItemHeaderBytes));
}

TEST_CASE("AnItemThatDoesNotFitItsAnswerIsStreamedAlone") {
  Fixture fixture;
  fixture.Ask(PushOp("small"));
  fixture.Ask(PushOp(std::string(5000, 'L')));
  fixture.Ask(PushOp("after"));
  fixture.client.reply_bytes_max = 1000;
  CHECK(fixture.Items(PopOp(5)) == "1=small ");
  const std::uint64_t frame = fixture.client.Call({PopOp(5)});
  const OwnedAnswer answer = fixture.client.WaitAnswer();
  CHECK(answer.answer.streamed);
  CHECK(answer.answer.number == 5000);
  CHECK(Text(answer) == "2=... ");
  CHECK(fixture.client.WaitStream().data == std::string(5000, 'L'));
  fixture.client.ack_watermark = frame + 1;
  CHECK(fixture.Items(PopOp(5)) == "3=after ");
}

TEST_CASE("AStreamedItemThatIsAskedForAgainComesAgain") {
  Fixture fixture;
  RawClient& client = fixture.client;
  fixture.Ask(PushOp(std::string(5000, 'L')));
  client.reply_bytes_max = 1000;
  wire::FrameHeader header = client.NextHeader();
  client.Send(client.Request(header, fixture.node.term(), {PopOp()}));
  CHECK(client.WaitAnswer().answer.streamed);
  client.CutConnection();
  REQUIRE(client.Attach());
  header.connection = client.attached().connection;
  client.Send(client.Request(header, fixture.node.term(), {PopOp()}));
  CHECK(Text(client.WaitAnswer()) == "1=... ");
  CHECK(client.WaitStream().data == std::string(5000, 'L'));
}

TEST_CASE("ALeasedItemIsGoneWithItsAckAndBackWithItsNack") {
  Fixture fixture;
  fixture.Ask(PushOp("a"));
  fixture.Ask(PushOp("b"));
  CHECK(fixture.Items(LeasePopOp()) == "1=a*1 ");
  CHECK(fixture.Length().ready == 1);
  CHECK(fixture.Length().leased == 1);
  CHECK(fixture.Code(LeaseOp(Opcode::kNack, 1, 1)) == StatusCode::kOk);
  CHECK(fixture.Items(LeasePopOp()) == "1=a*2 ");
  CHECK(fixture.Code(LeaseOp(Opcode::kAck, 1, 1)) == StatusCode::kFailedPrecondition);
  CHECK(fixture.Code(LeaseOp(Opcode::kNack, 1, 1)) == StatusCode::kFailedPrecondition);
  CHECK(fixture.Code(LeaseOp(Opcode::kAck, 1, 2)) == StatusCode::kOk);
  CHECK(fixture.Code(LeaseOp(Opcode::kAck, 1, 2)) == StatusCode::kNotFound);
  CHECK(fixture.Code(LeaseOp(Opcode::kAck, 2, 1)) == StatusCode::kNotFound);
  CHECK(fixture.Items(PopOp(9)) == "2=b ");
  CHECK(fixture.Code(LeasePopOp(0)) == StatusCode::kInvalidArgument);
}

TEST_CASE("AnAckThatIsSentAgainIsAnsweredAsTheFirstTime") {
  Fixture fixture;
  fixture.Ask(PushOp("a"));
  fixture.Ask(LeasePopOp());
  const wire::FrameHeader header = fixture.client.NextHeader();
  for (int round = 0; round < 2; ++round) {
    fixture.client.Send(
        fixture.client.Request(header, fixture.node.term(), {LeaseOp(Opcode::kAck, 1, 1)}));
    CHECK(fixture.client.WaitAnswer().answer.code == StatusCode::kOk);
  }
}

TEST_CASE("ALeaseThatRunsOutGivesItsItemToWhoWaits") {
  Fixture fixture;
  fixture.Ask(PushOp("a"));
  CHECK(fixture.Items(LeasePopOp(50)) == "1=a*1 ");
  CHECK(Text(Fixture::Ask(fixture.other, Waiting(LeasePopOp()))) == "1=a*2 ");
  CHECK(fixture.Code(LeaseOp(Opcode::kAck, 1, 1)) == StatusCode::kFailedPrecondition);
}

TEST_CASE("WaitingPopsAreServedInTheOrderInWhichTheyCame") {
  Fixture fixture;
  fixture.client.Call({Waiting(PopOp())});
  fixture.client.Call({Waiting(PopOp(5))});
  fixture.client.Settle();
  CHECK(!fixture.client.HasAnswer());
  const std::string list = ListOf({{0, AsBytes("a")}, {0, AsBytes("b")}, {0, AsBytes("c")}});
  CHECK(Fixture::Ask(fixture.other, PushManyOp(list)).answer.number == 3);
  CHECK(Text(fixture.client.WaitAnswer()) == "1=a ");
  CHECK(Text(fixture.client.WaitAnswer()) == "2=b 3=c ");
}

TEST_CASE("AWaitThatComesToNothingEndsWithItsTime") {
  Fixture fixture(Kind::kQueue, 1);
  CHECK(fixture.Code(Waiting(PopOp(), 20)) == StatusCode::kDeadlineExceeded);
  fixture.Ask(PushOp("a"));
  CHECK(fixture.Code(Waiting(PushOp("b"), 20)) == StatusCode::kDeadlineExceeded);
  CHECK(fixture.Items(PopOp(9)) == "1=a ");
}

TEST_CASE("AWaitingPushGoesInAsSoonAsThereIsRoom") {
  Fixture fixture(Kind::kQueue, 1);
  fixture.Ask(PushOp("a"));
  fixture.client.Call({Waiting(PushOp("b"))});
  fixture.client.Call({Waiting(PushOp("c"))});
  fixture.client.Settle();
  CHECK(!fixture.client.HasAnswer());
  CHECK(Text(Fixture::Ask(fixture.other, PopOp(9))) == "1=a ");
  CHECK(fixture.client.WaitAnswer().answer.number == 2);
  CHECK(Text(Fixture::Ask(fixture.other, PopOp(9))) == "2=b ");
  CHECK(fixture.client.WaitAnswer().answer.number == 3);
}

TEST_CASE("AnItemIsNotGivenToAWaiterThatHasGone") {
  Fixture fixture;
  fixture.client.Call({Waiting(PopOp())});
  fixture.client.Settle();
  fixture.client.CutConnection();
  // The daemon sees the loss in its own time; until then an item would be kept for the session.
  RawClient third(fixture.node);
  third.Attach();
  third.Call({Waiting(PopOp())});
  third.Settle();
  fixture.WaitUnconnected(fixture.client.attached().session);
  CHECK(Fixture::Ask(fixture.other, PushOp("a")).answer.code == StatusCode::kOk);
  CHECK(Text(third.WaitAnswer()) == "1=a ");
}

TEST_CASE("AWaitingPopThatIsSentAgainWaitsOnce") {
  Fixture fixture;
  RawClient& client = fixture.client;
  wire::FrameHeader header = client.NextHeader();
  client.Send(client.Request(header, fixture.node.term(), {Waiting(PopOp())}));
  client.Settle();
  client.CutConnection();
  REQUIRE(client.Attach());
  header.connection = client.attached().connection;
  client.Send(client.Request(header, fixture.node.term(), {Waiting(PopOp())}));
  client.Settle();
  const std::string list = ListOf({{0, AsBytes("a")}, {0, AsBytes("b")}});
  Fixture::Ask(fixture.other, PushManyOp(list));
  CHECK(Text(client.WaitAnswer()) == "1=a ");
  CHECK(Text(Fixture::Ask(fixture.other, PopOp(9))) == "2=b ");
}

// The timer would serve it too, but only after requests that the daemon already has.
TEST_CASE("APushIsTakenByWhoWaitsBeforeAnythingElseHappens") {
  Fixture fixture;
  RawClient& client = fixture.client;
  const std::uint64_t pop = client.Call({Waiting(PopOp())});
  client.Settle();
  const std::uint64_t push = client.Call({PushOp("a")});
  const std::uint64_t length = client.Call({On(Opcode::kLength)});
  CHECK(client.WaitAnswer().frame_id == push);
  CHECK(client.WaitAnswer().frame_id == pop);
  const OwnedAnswer last = client.WaitAnswer();
  CHECK(last.frame_id == length);
  CHECK(last.answer.number == 0);
}

TEST_CASE("PopsOfOneFrameThatWaitShareItsRoom") {
  Fixture fixture;
  RawClient& client = fixture.client;
  client.reply_bytes_max = 4'000;
  client.Call(std::vector<wire::Operation>(4, Waiting(PopOp())));
  client.Settle();
  for (const std::size_t bytes : {800, 3'000, 900, 700}) {
    Fixture::Ask(fixture.other, PushOp(std::string(bytes, 'v')));
  }
  std::size_t bytes = 0;
  for (int i = 0; i < 4; ++i) {
    const OwnedAnswer answer = client.WaitAnswer();
    CHECK(answer.answer.streamed == (i == 1));
    bytes += answer.value.size();
  }
  CHECK(bytes < client.reply_bytes_max);
  CHECK(client.WaitStream().data.size() == 3'000);
}

// The answers to all of them are kept until the oldest is finished.
TEST_CASE("ManyPopsThatWaitGetLargeItemsWithoutHarmToTheirSession") {
  Fixture fixture;
  RawClient& client = fixture.client;
  constexpr int kFrames = 64;
  constexpr int kPops = 8;
  const std::string value(30'000, 'v');
  static_assert(kFrames * kPops * 30'000ull > limits::kCachedReplyBytesMax * 3 / 2);
  for (int i = 0; i < kFrames; ++i) {
    client.Call(std::vector<wire::Operation>(kPops, Waiting(PopOp())));
  }
  client.Settle();
  for (int i = 0; i < kFrames * kPops; ++i) {
    REQUIRE(Fixture::Ask(fixture.other, PushOp(value)).answer.code == StatusCode::kOk);
    REQUIRE(client.WaitAnswer().answer.code == StatusCode::kOk);
  }
  client.Settle();
  CHECK_FALSE(client.lost());
}

wire::Operation PushUploaded(std::uint64_t number) {
  wire::Operation operation = PushOp({});
  operation.set(Argument::kUpload, number);
  return operation;
}

TEST_CASE("LargePushesThatWaitKeepTheirValues") {
  Fixture fixture(Kind::kQueue, 1);
  RawClient& client = fixture.client;
  fixture.Ask(PushOp("first"));
  UploadValue(client, 1, std::string(100'000, '1'));
  client.Call({Waiting(PushUploaded(1))});
  // It takes the place where the session receives values.
  UploadValue(client, 2, std::string(200'000, '2'));
  client.Call({Waiting(PushUploaded(2))});
  client.Settle();
  CHECK_FALSE(client.HasAnswer());
  CHECK(Text(Fixture::Ask(fixture.other, PopOp())) == "1=first ");
  CHECK(client.WaitAnswer().answer.number == 2);
  for (const char digit : {'1', '2'}) {
    const std::string value = DownloadValue(fixture.other, Fixture::Ask(fixture.other, PopOp()));
    CHECK(value == std::string(digit == '1' ? 100'000 : 200'000, digit));
  }
  CHECK(client.WaitAnswer().answer.number == 3);
}

TEST_CASE("ALargePushThatWaitsOutlivesItsConnection") {
  Fixture fixture(Kind::kQueue, 1);
  RawClient& client = fixture.client;
  fixture.Ask(PushOp("first"));
  UploadValue(client, 1, std::string(100'000, '1'));
  wire::FrameHeader header = client.NextHeader();
  const std::vector<wire::Operation> push = {Waiting(PushUploaded(1))};
  client.Send(client.Request(header, fixture.node.term(), push));
  client.Settle();
  client.CutConnection();
  REQUIRE(client.Attach());
  header.connection = client.attached().connection;
  client.Send(client.Request(header, fixture.node.term(), push));
  client.Settle();
  CHECK_FALSE(client.HasAnswer());
  CHECK(Text(Fixture::Ask(fixture.other, PopOp())) == "1=first ");
  CHECK(client.WaitAnswer().answer.number == 2);
  CHECK(DownloadValue(fixture.other, Fixture::Ask(fixture.other, PopOp())).size() == 100'000);
}

TEST_CASE("TheBytesOfASessionsWaitsAreBounded") {
  Fixture fixture(Kind::kQueue, 1);
  RawClient& client = fixture.client;
  fixture.Ask(PushOp("first"));
  const std::string value(limits::kUnstreamedValueBytesMax, 'v');
  const std::uint64_t waits = client.attached().credit_bytes / value.size();
  REQUIRE(waits > 0);
  for (std::uint64_t i = 0; i < waits; ++i) client.Call({Waiting(PushOp(value))});
  client.Settle();
  CHECK_FALSE(client.HasAnswer());
  client.Call({Waiting(PushOp(value))});
  CHECK(client.WaitAnswer().answer.code == StatusCode::kDeadlineExceeded);
  // An ended lease does not count.
  CHECK(Text(Fixture::Ask(fixture.other, PopOp())) == "1=first ");
  CHECK(client.WaitAnswer().answer.code == StatusCode::kOk);
  client.Call({Waiting(PushOp(value))});
  client.Settle();
  CHECK_FALSE(client.HasAnswer());
}

TEST_CASE("WhatFollowsALargeItemInItsFrameStillSaysWhichItemItIs") {
  Fixture fixture;
  for (const char* value : {"a", "b"}) fixture.Ask(PushOp(std::string(3'000, *value)));
  // The first would fit, and leave no room for the other's header.
  fixture.client.reply_bytes_max =
      3'000 + wire::kDeliveredItemHeaderBytes + 2 * wire::kReplyEntryBytes;
  fixture.client.Call({PopOp(), PopOp()});
  CHECK(Text(fixture.client.WaitAnswer()) == "1=... ");
  CHECK(Text(fixture.client.WaitAnswer()) == "2=... ");
}

TEST_CASE("AShareOfMemoryBoundsAQueueToo") {
  Fixture fixture;
  fixture.node.SetMemoryShare(1);  // 2.6 MB.
  const std::string value(30'000, 'v');
  int pushed = 0;
  while (pushed < 1000 && fixture.Code(PushOp(value)) == StatusCode::kOk) ++pushed;
  CHECK(pushed > 50);
  CHECK(pushed < 100);
  CHECK(fixture.Code(PushManyOp(ListOf({{0, AsBytes(value)}}))) == StatusCode::kResourceExhausted);
  CHECK(fixture.Ask(PopOp()).answer.code == StatusCode::kOk);
  CHECK(fixture.Code(PushOp(value)) == StatusCode::kOk);
}

TEST_CASE("OperationsOfAnotherKindAreRefused") {
  Fixture fixture;
  CHECK(fixture.Code(GetOp("")) == StatusCode::kInvalidArgument);
  Fixture map(Kind::kHash);
  CHECK(map.Code(PushOp("a")) == StatusCode::kInvalidArgument);
  CHECK(map.Code(PopOp()) == StatusCode::kInvalidArgument);
}

// Each keeps less than a session may, and together they would keep more than the core.
TEST_CASE("ConsumersThatStopWithTheirAnswersUnfinishedDoNotFillTheHeap") {
  constexpr int kConsumers = 12;
  constexpr int kPops = 160;  // Items of 32,000 bytes each: 5.1 MB.
  static_assert(kConsumers * kPops * 32'000ull > ReplyCacheBytesMax(kMemoryBytes) * 3 / 2);
  static_assert(kPops * 32'000ull < limits::kCachedReplyBytesMax);
  TestNode node(1, kMemoryBytes, Kind::kQueue);
  RawClient producer(node);
  producer.Attach();
  const std::string value(32'000, 'v');
  std::vector<std::unique_ptr<RawClient>> consumers;
  std::uint64_t first_pop = 0;
  for (int i = 0; i < kConsumers; ++i) {
    consumers.push_back(std::make_unique<RawClient>(node));
    RawClient& consumer = *consumers.back();
    consumer.Attach();
    for (int pop = 0; pop < kPops; ++pop) {
      producer.ack_watermark = producer.Call({PushOp(value)});
      REQUIRE(producer.WaitAnswer().answer.code == StatusCode::kOk);
      const std::uint64_t frame = consumer.Call({PopOp()});
      if (pop == 0) first_pop = frame;
      REQUIRE(consumer.WaitAnswer().answer.code == StatusCode::kOk);
    }
  }
  // Cached replies now fit, and the longest silent sessions are gone.
  int held = 0;
  for (int i = 0; i < kConsumers; ++i) {
    const bool resumed = consumers[static_cast<std::size_t>(i)]->Attach();
    if (held > 0) CHECK(resumed);
    held += resumed ? 1 : 0;
  }
  CHECK(held > 0);
  CHECK(held < kConsumers);
  CHECK(static_cast<std::uint64_t>(held) * kPops * value.size() <=
        ReplyCacheBytesMax(kMemoryBytes));
  // A client with a kept session gets its answer again.
  RawClient& last = *consumers.back();
  wire::FrameHeader again = last.NextHeader();
  again.frame_id = first_pop;
  last.Send(last.Request(again, node.term(), {PopOp()}));
  const OwnedAnswer kept = last.WaitAnswer();
  CHECK(kept.frame_id == first_pop);
  CHECK(kept.answer.code == StatusCode::kOk);
  CHECK(kept.value.size() > value.size());
  // And the queue serves whoever comes.
  producer.Call({PopOp()});
  CHECK(producer.WaitAnswer().answer.code == StatusCode::kNotFound);
}

}  // namespace
}  // namespace tidepool::daemon
