// The protocol from the wire to the store, with frames made by hand.
#include "daemon/core/dispatcher.h"

#include <catch2/catch.hpp>
#include <functional>

#include "daemon/core/core.h"
#include "proto/wire/record_list.h"
#include "tests/daemon/raw_client.h"

namespace tidepool::daemon {
namespace {

using wire::Answer;

TEST_CASE("AGetReturnsWhatAPutStored") {
  TestNode node(4);
  RawClient client(node);
  client.Attach();
  client.Call({PutOp("a", "one"), PutOp("b", "two")});
  CHECK(client.WaitAnswer().answer.code == StatusCode::kOk);
  CHECK(client.WaitAnswer().answer.code == StatusCode::kOk);
  client.Call({GetOp("a"), GetOp("b"), GetOp("none")});
  CHECK(client.WaitAnswer().value == "one");
  CHECK(client.WaitAnswer().value == "two");
  CHECK(client.WaitAnswer().answer.code == StatusCode::kNotFound);
}

TEST_CASE("AboveItsMemoryShareANamespaceOnlyTakesChangesThatStoreNoMore") {
  TestNode node(1, 64ull << 20);
  node.SetMemoryShare(1);  // 655 KiB.
  RawClient client(node);
  client.Attach();
  const std::string value(16 * 1024, 'v');
  std::vector<std::string> keys;
  std::string refusal;
  for (int i = 0; i < 100 && refusal.empty(); ++i) {
    keys.push_back("key" + std::to_string(i));
    client.Call({PutOp(keys.back(), value)});
    const OwnedAnswer answer = client.WaitAnswer();
    if (answer.answer.code == StatusCode::kOk) continue;
    REQUIRE(answer.answer.code == StatusCode::kResourceExhausted);
    refusal = answer.value;
  }
  CHECK(keys.size() - 1 == 40);
  CHECK(refusal.find("'test'") != std::string::npos);
  CHECK(refusal.find("share of 1 %") != std::string::npos);
  const auto code = [&](const wire::Operation& operation) {
    client.Call({operation});
    return client.WaitAnswer().answer.code;
  };
  wire::Operation remove = GetOp(keys[0]);
  remove.opcode = wire::Opcode::kDelete;
  CHECK(code(PutOp(keys[0], value)) == StatusCode::kOk);  // No larger than the replaced value.
  CHECK(code(PutOp(keys[0], value + value)) == StatusCode::kResourceExhausted);
  CHECK(code(GetOp(keys[1])) == StatusCode::kOk);
  CHECK(code(remove) == StatusCode::kOk);
  CHECK(code(PutOp("other", value)) == StatusCode::kOk);
  node.SetMemoryShare(0);
  CHECK(code(PutOp("one more", value)) == StatusCode::kOk);
}

TEST_CASE("AGroupUnderAnOldTermIsRefusedWithTheEpochAndNothingIsApplied") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  node.RaiseTerms();
  client.Send(client.Request(client.NextHeader(), Term(1), {PutOp("a", "late")}));
  const OwnedAnswer refusal = client.WaitAnswer();
  CHECK(refusal.answer.scope == Answer::Scope::kGroup);
  CHECK(refusal.answer.code == StatusCode::kWrongEpoch);
  CHECK(refusal.answer.number == 2);
  client.Call({GetOp("a")});
  CHECK(client.WaitAnswer().answer.code == StatusCode::kNotFound);
}

TEST_CASE("ARefusedGroupStaysRefusedWhenItsFrameComesAgain") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  node.RaiseTerms();
  const std::string frame = client.Request(client.NextHeader(), Term(1), {PutOp("a", "late")});
  client.Send(frame);
  CHECK(client.WaitAnswer().answer.code == StatusCode::kWrongEpoch);
  client.Send(frame);
  CHECK(client.WaitAnswer().answer.code == StatusCode::kWrongEpoch);
}

TEST_CASE("AGroupUnderANewerTermWaitsForTheMap") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  client.Send(client.Request(client.NextHeader(), Term(2), {AddOp("n", 5)}));
  client.Settle();
  CHECK_FALSE(client.HasAnswer());
  node.RaiseTerms();
  const OwnedAnswer answer = client.WaitAnswer();
  CHECK(answer.answer.code == StatusCode::kOk);
  CHECK(answer.answer.version.term() == Term(2));
}

TEST_CASE("AWaitingGroupEndsAtItsDeadline") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  client.time_left_us = 50'000;
  client.Send(client.Request(client.NextHeader(), Term(9), {AddOp("n", 5)}));
  const OwnedAnswer answer = client.WaitAnswer();
  CHECK(answer.answer.scope == Answer::Scope::kGroup);
  CHECK(answer.answer.code == StatusCode::kDeadlineExceeded);
  client.Call({GetOp("n")});
  CHECK(client.WaitAnswer().answer.code == StatusCode::kNotFound);
}

TEST_CASE("AWaitingGroupThatComesAgainIsCountedAgainstTheCreditOnce") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  const std::vector<wire::Operation> adds(client.attached().credit_operations * 3 / 4,
                                          AddOp("n", 1));
  wire::FrameHeader header = client.NextHeader();
  client.Send(client.Request(header, Term(2), adds));
  client.Settle();
  client.CutConnection();
  REQUIRE(client.Attach());
  header.connection = client.attached().connection;
  client.Send(client.Request(header, Term(2), adds));
  client.Settle();
  REQUIRE_FALSE(client.lost());
  node.RaiseTerms();
  for (std::size_t i = 0; i < adds.size(); ++i) {
    CHECK(client.WaitAnswer().answer.code == StatusCode::kOk);
  }
  client.Call({AddOp("n", 0)});
  CHECK(client.WaitAnswer().answer.number == adds.size());
}

TEST_CASE("AFrameThatComesTwiceIsAppliedOnceAndAnsweredTwiceAlike") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  const std::string frame =
      client.Request(client.NextHeader(), node.term(), {AddOp("n", 1), AddOp("n", 1)});
  for (int i = 0; i < 3; ++i) {
    client.Send(frame);
    CHECK(client.WaitAnswer().answer.number == 0);
    CHECK(client.WaitAnswer().answer.number == 1);
  }
  client.Call({AddOp("n", 0)});
  CHECK(client.WaitAnswer().answer.number == 2);
}

TEST_CASE("AfterACutConnectionEachAddIsCountedOnceAndItsValueIsTheRightOne") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  constexpr int kRounds = 40;
  for (int i = 0; i < kRounds; ++i) {
    const wire::FrameHeader header = client.NextHeader();
    client.Send(client.Request(header, node.term(), {AddOp("n", 1)}));
    if (i % 2 == 0) (void)client.WaitAnswer();  // Sometimes the answer was there, sometimes not.
    client.CutConnection();
    REQUIRE(client.Attach());
    wire::FrameHeader again = header;
    again.connection = client.attached().connection;
    client.Send(client.Request(again, node.term(), {AddOp("n", 1)}));
    REQUIRE(client.WaitAnswer().answer.number == static_cast<std::uint64_t>(i));
    client.ack_watermark = header.frame_id + 1;
  }
}

// A frame with a change and a read that was answered, and comes again after a cut; meanwhile
// `event` has happened. The codes of the second answer.
std::vector<StatusCode> AnswersAfter(const std::function<void(TestNode&)>& event) {
  TestNode node;
  RawClient client(node);
  client.Attach();
  wire::FrameHeader header = client.NextHeader();
  const std::vector<wire::Operation> operations = {PutOp("a", "one"), GetOp("a")};
  client.Send(client.Request(header, Term(1), operations));
  client.WaitAnswer();
  CHECK(client.WaitAnswer().value == "one");
  client.CutConnection();
  event(node);
  REQUIRE(client.Attach());
  header.connection = client.attached().connection;
  client.Send(client.Request(header, Term(1), operations));
  std::vector<StatusCode> codes;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    codes.push_back(client.WaitAnswer().answer.code);
  }
  return codes;
}

TEST_CASE("AReadThatComesAgainAfterItsPartitionHasANewTermIsSentOn") {
  CHECK(AnswersAfter([](TestNode& node) { node.RaiseTerms(); }) ==
        std::vector{StatusCode::kOk, StatusCode::kWrongEpoch});
}

// Not kWrongEpoch: the client would wait for a term that never comes.
TEST_CASE("AReadThatComesAgainWhileTheLeaseHasRunOutIsUnavailable") {
  CHECK(AnswersAfter([](TestNode& node) { node.lease().Revoke(); }) ==
        std::vector{StatusCode::kOk, StatusCode::kUnavailable});
}

TEST_CASE("AGroupThatWaitsIsForgottenWithItsSession") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  client.Settle();
  client.time_left_us = 4'000'000'000;
  client.Send(client.Request(client.NextHeader(), Term(2), {AddOp("n", 5)}));
  const auto map_waiters = [&] {
    std::size_t held = 0;
    REQUIRE(node.cores()
                .Run(
                    CoreId(0), [&](Core& core) { held = core.dispatcher().map_waiters(); },
                    Deadline::AfterMs(10'000))
                .ok());
    return held;
  };
  client.Settle();
  REQUIRE(map_waiters() == 1);
  wire::FrameHeader header = client.NextHeader();
  header.type = wire::FrameType::kDetach;
  header.bytes = sizeof header;
  client.Send(std::string(reinterpret_cast<const char*>(&header), sizeof header));
  client.WaitLost();
  const Deadline deadline = Deadline::AfterMs(30'000);
  while (map_waiters() > 0) REQUIRE_FALSE(deadline.Passed());
}

TEST_CASE("LateFramesOfAnOlderConnectionAreDropped") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  wire::FrameHeader header = client.NextHeader();
  const std::string late = client.Request(header, node.term(), {AddOp("n", 1)});
  REQUIRE(client.Attach());
  client.Send(late);
  client.Settle();
  CHECK_FALSE(client.HasAnswer());
  client.Call({GetOp("n")});
  CHECK(client.WaitAnswer().answer.code == StatusCode::kNotFound);
}

TEST_CASE("FramesBelowTheAckWatermarkAreDropped") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  const std::string given_up = client.Request(client.NextHeader(), node.term(), {AddOp("n", 1)});
  client.ack_watermark = 2;
  client.Settle();
  client.Send(given_up);
  client.Settle();
  CHECK_FALSE(client.HasAnswer());
}

TEST_CASE("MoreOperationsThanGrantedCloseTheSession") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  const std::uint32_t granted = client.attached().credit_operations;
  // They wait for a map, so they stay outstanding.
  const std::vector<wire::Operation> operations(granted, GetOp("a"));
  client.Send(client.Request(client.NextHeader(), Term(2), operations));
  client.Send(client.Request(client.NextHeader(), Term(2), {GetOp("a")}));
  client.WaitLost();
  CHECK_FALSE(client.HasAnswer());
}

TEST_CASE("MoreBytesThanGrantedCloseTheSession") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  const std::string value(limits::kUnstreamedValueBytesMax, 'v');
  const auto frame = [&](Term term) {
    return client.Request(client.NextHeader(), term, {PutOp("a", value)});
  };
  const std::size_t within = client.attached().credit_bytes / frame(Term(2)).size();
  REQUIRE(within < client.attached().credit_operations / 2);
  // They wait for a map. Granted operations may wait, again and again.
  for (std::uint32_t term = 2; term < 4; ++term) {
    for (std::size_t i = 0; i < within; ++i) client.Send(frame(Term(term)));
    client.Settle();
    CHECK_FALSE(client.HasAnswer());
    node.RaiseTerms();
    for (std::size_t i = 0; i < within; ++i) {
      CHECK(client.WaitAnswer().answer.code == StatusCode::kOk);
    }
  }
  // A repeated frame waits once.
  const std::string twice = frame(Term(4));
  for (int i = 0; i < 2; ++i) client.Send(twice);
  for (std::size_t i = 1; i < within; ++i) client.Send(frame(Term(4)));
  client.Settle();
  CHECK_FALSE(client.lost());
  client.Send(frame(Term(4)));
  client.WaitLost();
  CHECK_FALSE(client.HasAnswer());
}

TEST_CASE("AClientThatNeverReadsItsAnswersIsEndedAndOthersAreServed") {
  TestNode node;
  RawClient good(node);
  RawClient bad(node);
  good.Attach();
  bad.Attach();
  const std::string value(limits::kUnstreamedValueBytesMax, 'x');
  good.Call({PutOp("a", value)});
  REQUIRE(good.WaitAnswer().answer.code == StatusCode::kOk);
  // It says that it has the answers, and never looks: nothing below makes its worker progress.
  bad.Settle();
  constexpr int kFrames = 2'000;  // 64 MiB of answers.
  for (int i = 0; i < kFrames; ++i) {
    bad.ack_watermark = bad.Call({GetOp("a")});
  }
  const Deadline deadline = Deadline::AfterMs(20'000);
  while (node.cores().Stats(Deadline::AfterMs(5'000))[0].sessions == 2) {
    REQUIRE_FALSE(deadline.Passed());
  }
  good.Call({GetOp("a")});
  CHECK(good.WaitAnswer().value == value);
}

TEST_CASE("AClientThatFinishesNoFrameIsEndedBeforeItsKeptAnswersFillTheMemory") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  const std::string value(limits::kUnstreamedValueBytesMax, 'v');
  constexpr std::size_t kTakesMax =
      limits::kCachedReplyBytesMax / limits::kUnstreamedValueBytesMax + 2;
  std::size_t taken = 0;
  for (; taken < kTakesMax; ++taken) {
    client.Call({PutOp("a", value)});
    if (!client.WaitAnswerOrLost()) break;
    REQUIRE(client.WaitAnswer().answer.code == StatusCode::kOk);
    wire::Operation take = GetOp("a");
    take.opcode = wire::Opcode::kTake;
    client.Call({take});
    if (!client.WaitAnswerOrLost()) break;
    REQUIRE(client.WaitAnswer().value == value);
  }
  CHECK(taken >= kTakesMax - 2);
  CHECK(taken < kTakesMax);
  client.WaitLost();
}

TEST_CASE("AMalformedFrameClosesItsSessionAndNoOther") {
  TestNode node;
  RawClient good(node);
  RawClient bad(node);
  good.Attach();
  bad.Attach();
  std::string frame = bad.Request(bad.NextHeader(), node.term(), {PutOp("a", "x")});
  frame[limits::kFrameHeaderBytes + 12] = 77;  // The group's operation count.
  bad.Send(frame);
  bad.WaitLost();
  good.Call({PutOp("a", "x")});
  CHECK(good.WaitAnswer().answer.code == StatusCode::kOk);
}

TEST_CASE("JunkAndUnknownSessionsAreIgnored") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  client.Send("junk");
  client.Send(std::string(1000, '\xff'));
  wire::FrameHeader header = client.NextHeader();
  header.session ^= 1;
  client.Send(client.Request(header, node.term(), {PutOp("a", "x")}));
  client.Settle();
  CHECK_FALSE(client.HasAnswer());
  CHECK_FALSE(client.lost());
}

TEST_CASE("AnExpiredLeaseServesNothing") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  node.lease().Revoke();
  client.Call({PutOp("a", "x")});
  const OwnedAnswer answer = client.WaitAnswer();
  CHECK(answer.answer.scope == Answer::Scope::kGroup);
  CHECK(answer.answer.code == StatusCode::kUnavailable);
}

TEST_CASE("ALostPartitionAnswersDataLoss") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  node.SetState(placement::PartitionState::kLost);
  client.Call({GetOp("a")});
  CHECK(client.WaitAnswer().answer.code == StatusCode::kDataLoss);
}

TEST_CASE("AKeyOfAnotherPartitionIsRefused") {
  TestNode node(64);
  RawClient client(node);
  client.Attach();
  std::string frame(limits::kFrameBytesMax, '\0');
  wire::RequestWriter writer({reinterpret_cast<std::byte*>(frame.data()), frame.size()});
  const PartitionId right = node.PartitionOf("a");
  REQUIRE(writer.BeginGroup(PartitionId(TestNode::space(), (right.index() + 1) % 64), node.term(),
                            false));
  REQUIRE(writer.Add(PutOp("a", "x")));
  frame.resize(writer.Finish(client.NextHeader()));
  client.Send(frame);
  CHECK(client.WaitAnswer().answer.code == StatusCode::kInvalidArgument);
}

TEST_CASE("IterationListsEveryKeyOnce") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  constexpr int kKeys = 1'000;
  std::vector<std::string> keys;
  for (int i = 0; i < kKeys; ++i) keys.push_back("key" + std::to_string(i));
  for (int i = 0; i < kKeys; i += 100) {
    std::vector<wire::Operation> puts;
    for (int k = i; k < i + 100; ++k) puts.push_back(PutOp(keys[static_cast<std::size_t>(k)], "v"));
    client.Call(puts);
    for (int k = 0; k < 100; ++k) REQUIRE(client.WaitAnswer().answer.code == StatusCode::kOk);
  }
  std::vector<std::string> seen;
  std::uint64_t cursor = 0;
  do {
    wire::Operation iterate;
    iterate.opcode = wire::Opcode::kIterate;
    iterate.set(wire::Argument::kOperand, 64);
    iterate.set(wire::Argument::kCursor, cursor);
    iterate.set(wire::Argument::kOptions, 0);
    client.Call({iterate});
    const OwnedAnswer answer = client.WaitAnswer();
    REQUIRE(answer.answer.code == StatusCode::kOk);
    cursor = answer.answer.number;
    Bytes rest = AsBytes(answer.value);
    while (!rest.empty()) {
      wire::ListedRecord record;
      REQUIRE(wire::TakeRecord(&rest, &record).ok());
      seen.emplace_back(AsText(record.key));
    }
  } while (cursor != 0);
  std::sort(seen.begin(), seen.end());
  std::sort(keys.begin(), keys.end());
  CHECK(seen == keys);
}

TEST_CASE("ADetachedSessionIsForgotten") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  client.Settle();
  wire::FrameHeader header = client.NextHeader();
  header.type = wire::FrameType::kDetach;
  header.bytes = sizeof header;
  client.Send(std::string(reinterpret_cast<const char*>(&header), sizeof header));
  client.WaitLost();
  CHECK_FALSE(client.Attach());  // A new session, not the old session resumed.
}

}  // namespace
}  // namespace tidepool::daemon
