// Quiet groups: applied like other groups, answered by counts and failures, and counted once.
#include <catch2/catch.hpp>
#include <map>

#include "proto/wire/pack.h"
#include "tests/daemon/raw_client.h"

namespace tidepool::daemon {
namespace {

// Returns a quiet group for the partition of the first key.
std::string QuietRequest(TestNode& node, const wire::FrameHeader& header, Term term,
                         const std::vector<wire::Operation>& operations) {
  wire::Pack pack;
  for (const wire::Operation& operation : operations) {
    const std::uint64_t word =
        operation.arguments == 0
            ? 0
            : operation.words[static_cast<std::size_t>(__builtin_ctz(operation.arguments))];
    pack.Add(wire::HeaderOf(operation), word, operation.key, operation.value);
  }
  std::string frame(limits::kFrameBytesMax, '\0');
  wire::RequestWriter writer({reinterpret_cast<std::byte*>(frame.data()), frame.size()});
  REQUIRE(writer.AddEncodedGroup(node.PartitionOf(AsText(operations[0].key)), term, true,
                                 pack.count(), pack.uniform(), pack.bytes()));
  frame.resize(writer.Finish(header));
  return frame;
}

wire::Operation InsertOp(std::string_view key, std::string_view value) {
  wire::Operation operation = PutOp(key, value);
  operation.condition = wire::PutCondition::kIfAbsent;
  return operation;
}

struct Fixture {
  TestNode node;
  RawClient client{node};
  Fixture() { client.Attach(); }

  std::string Quiet(const std::vector<wire::Operation>& operations) {
    return QuietRequest(node, client.NextHeader(), node.term(), operations);
  }
  std::uint64_t Counter(std::string_view key) {
    client.Call({AddOp(key, 0)});
    return client.WaitAnswer().answer.number;
  }
};

TEST_CASE_METHOD(Fixture, "SuccessesOfAQuietGroupAreOneEntry") {
  client.Send(Quiet(std::vector<wire::Operation>(500, AddOp("n", 2))));
  for (std::uint16_t i = 0; i < 500; ++i) {
    const OwnedAnswer answer = client.WaitAnswer();
    REQUIRE(answer.answer.index == i);
    REQUIRE(answer.answer.code == StatusCode::kOk);
    REQUIRE_FALSE(answer.answer.has_number);
    REQUIRE_FALSE(answer.answer.has_version);
  }
  CHECK(client.runs() == 1);
  CHECK(Counter("n") == 1'000);
}

TEST_CASE_METHOD(Fixture, "FailuresOfAQuietGroupAreToldByIndexWithAText") {
  client.Send(Quiet({PutOp("text", "no counter")}));
  REQUIRE(client.WaitAnswer().answer.code == StatusCode::kOk);
  client.Send(Quiet({AddOp("n", 1), AddOp("text", 1), AddOp("n", 1)}));
  CHECK(client.WaitAnswer().answer.code == StatusCode::kOk);
  const OwnedAnswer failure = client.WaitAnswer();
  CHECK(failure.answer.index == 1);
  CHECK(failure.answer.code == StatusCode::kInvalidArgument);
  CHECK(failure.value.find("not a counter") != std::string::npos);
  CHECK(client.WaitAnswer().answer.index == 2);
  CHECK(Counter("n") == 2);
}

TEST_CASE_METHOD(Fixture, "AnInsertThatFindsItsKeyHasSucceededAndChangesNothing") {
  client.Send(Quiet({InsertOp("a", "first"), InsertOp("a", "second")}));
  CHECK(client.WaitAnswer().answer.code == StatusCode::kOk);
  CHECK(client.WaitAnswer().answer.code == StatusCode::kOk);
  client.Call({GetOp("a")});
  CHECK(client.WaitAnswer().value == "first");
}

TEST_CASE_METHOD(Fixture, "AQuietGroupThatComesAgainIsAnsweredAlikeAndCountedOnce") {
  client.Call({PutOp("text", "no counter")});
  (void)client.WaitAnswer();
  const std::string frame = Quiet({AddOp("n", 1), AddOp("text", 1), AddOp("n", 1)});
  for (int round = 0; round < 3; ++round) {
    client.Send(frame);
    for (std::uint16_t i = 0; i < 3; ++i) {
      const OwnedAnswer answer = client.WaitAnswer();
      CHECK(answer.answer.index == i);
      CHECK(answer.answer.code == (i == 1 ? StatusCode::kInvalidArgument : StatusCode::kOk));
      CHECK(answer.value.empty() == (i != 1));
    }
  }
  CHECK(Counter("n") == 2);
}

TEST_CASE_METHOD(Fixture, "AfterACutConnectionAQuietGroupIsCountedOnce") {
  constexpr int kRounds = 30;
  for (int i = 0; i < kRounds; ++i) {
    const wire::FrameHeader header = client.NextHeader();
    const std::vector<wire::Operation> adds(10, AddOp("n", 1));
    client.Send(QuietRequest(node, header, node.term(), adds));
    if (i % 2 == 0) (void)client.WaitAnswer();
    client.CutConnection();
    REQUIRE(client.Attach());
    wire::FrameHeader again = header;
    again.connection = client.attached().connection;
    client.Send(QuietRequest(node, again, node.term(), adds));
    for (int k = 0; k < 10; ++k) REQUIRE(client.WaitAnswer().answer.code == StatusCode::kOk);
    client.ack_watermark = header.frame_id + 1;
  }
  CHECK(Counter("n") == 10 * kRounds);
}

TEST_CASE_METHOD(Fixture, "AQuietGroupUnderAnOldTermIsRefusedAsAWhole") {
  const wire::FrameHeader header = client.NextHeader();
  node.RaiseTerms();
  const std::string late = QuietRequest(node, header, Term(1), {AddOp("n", 1), AddOp("n", 1)});
  for (int i = 0; i < 2; ++i) {
    client.Send(late);
    const OwnedAnswer refusal = client.WaitAnswer();
    CHECK(refusal.answer.scope == wire::Answer::Scope::kGroup);
    CHECK(refusal.answer.code == StatusCode::kWrongEpoch);
  }
  CHECK(Counter("n") == 0);
}

TEST_CASE_METHOD(Fixture, "AQuietGroupThatWaitsForTheMapTakesOneOperationOfCredit") {
  const std::vector<wire::Operation> adds(1'000, AddOp("n", 1));
  const std::uint32_t frames = 20;
  REQUIRE(frames * adds.size() > client.attached().credit_operations);
  for (std::uint32_t i = 0; i < frames; ++i) {
    client.Send(QuietRequest(node, client.NextHeader(), Term(2), adds));
  }
  client.Settle();
  REQUIRE_FALSE(client.lost());
  node.RaiseTerms();
  for (std::size_t i = 0; i < frames * adds.size(); ++i) {
    REQUIRE(client.WaitAnswer().answer.code == StatusCode::kOk);
  }
  CHECK(Counter("n") == frames * adds.size());
}

TEST_CASE_METHOD(Fixture, "KeysOfAnotherPartitionFailAlone") {
  TestNode parts(64);
  RawClient other(parts);
  other.Attach();
  std::string stranger = "b";
  while (parts.PartitionOf(stranger) == parts.PartitionOf("a")) stranger += 'b';
  other.Send(QuietRequest(parts, other.NextHeader(), parts.term(),
                          {AddOp("a", 1), AddOp(stranger, 1), AddOp("a", 1)}));
  CHECK(other.WaitAnswer().answer.code == StatusCode::kOk);
  CHECK(other.WaitAnswer().answer.code == StatusCode::kInvalidArgument);
  CHECK(other.WaitAnswer().answer.code == StatusCode::kOk);
}

TEST_CASE_METHOD(Fixture, "AClientThatFinishesNoFrameIsEndedBeforeItsKeptFailuresFillTheMemory") {
  client.Call({PutOp("text", "no counter")});
  (void)client.WaitAnswer();
  const std::vector<wire::Operation> adds(1'000, AddOp("text", 1));
  constexpr std::size_t kFramesMax =
      limits::kCachedReplyBytesMax / limits::kCachedFailureBytes / 1'000 + 2;
  std::size_t frames = 0;
  for (; frames < kFramesMax; ++frames) {
    client.Send(QuietRequest(node, client.NextHeader(), node.term(), adds));
    if (!client.WaitAnswerOrLost()) break;
    for (int i = 0; i < 1'000; ++i) (void)client.WaitAnswer();
  }
  CHECK(frames < kFramesMax);
  client.WaitLost();
}

}  // namespace
}  // namespace tidepool::daemon
