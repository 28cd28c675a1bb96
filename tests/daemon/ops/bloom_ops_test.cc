// The operations on filters, frame by frame: answers, also to repeated requests.
#include "daemon/ops/bloom_ops.h"

#include <catch2/catch.hpp>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/core.h"
#include "proto/base/split_block.h"
#include "proto/wire/bloom_ops.h"
#include "tests/daemon/raw_client.h"

namespace tidepool::daemon {
namespace {

using wire::Argument;
using wire::Opcode;

constexpr std::uint64_t kMemoryBytes = 256ull << 20;

wire::Operation On(Opcode opcode, std::string_view value = {}) {
  wire::Operation operation;
  operation.opcode = opcode;
  operation.key = AsBytes(value);
  return operation;
}

wire::Operation UnionOp(std::uint64_t space, std::uint64_t cursor) {
  wire::Operation operation = On(Opcode::kBloomUnion);
  operation.set(Argument::kOperand, space);
  operation.set(Argument::kCursor, cursor);
  return operation;
}

wire::Operation ReadOp(std::uint64_t offset) {
  wire::Operation operation = On(Opcode::kBloomRead);
  operation.set(Argument::kCursor, offset);
  return operation;
}

struct Fixture {
  explicit Fixture(std::uint32_t partitions = 1)
      : node(partitions, kMemoryBytes, Kind::kBloom), client(node) {
    client.Attach();
  }
  OwnedAnswer Ask(const wire::Operation& operation, NamespaceId space = TestNode::space()) {
    const std::uint64_t frame = client.Call({operation}, space);
    OwnedAnswer answer = client.WaitAnswer();
    client.ack_watermark = frame + 1;
    return answer;
  }
  StatusCode Code(const wire::Operation& operation, NamespaceId space = TestNode::space()) {
    return Ask(operation, space).answer.code;
  }
  wire::FilterSummary Describe(NamespaceId space = TestNode::space()) {
    const OwnedAnswer answer = Ask(On(Opcode::kBloomDescribe), space);
    REQUIRE(answer.answer.code == StatusCode::kOk);
    return wire::LoadFilterSummary(AsBytes(answer.value)).value();
  }
  std::string Download(NamespaceId space = TestNode::space()) {
    std::string filter(Describe(space).shape.bytes(), '\0');
    std::uint64_t at = 0;
    do {
      const OwnedAnswer answer = Ask(ReadOp(at), space);
      REQUIRE(answer.answer.code == StatusCode::kOk);
      const std::uint64_t next = answer.answer.number == 0 ? filter.size() : answer.answer.number;
      REQUIRE(next > at);
      REQUIRE((answer.value.empty() || answer.value.size() == next - at));
      filter.replace(at, answer.value.size(), answer.value);
      at = answer.answer.number;
    } while (at != 0);
    return filter;
  }

  TestNode node;
  RawClient client;
};

TEST_CASE("AValueIsNewOnceAndThereFromThenOn") {
  Fixture fixture;
  CHECK(fixture.Code(On(Opcode::kBloomContains, "a")) == StatusCode::kNotFound);
  CHECK(fixture.Code(On(Opcode::kBloomInsert, "a")) == StatusCode::kOk);
  CHECK(fixture.Code(On(Opcode::kBloomInsert, "a")) == StatusCode::kAlreadyExists);
  CHECK(fixture.Code(On(Opcode::kBloomContains, "a")) == StatusCode::kOk);
  CHECK(fixture.Code(On(Opcode::kBloomInsert, "")) == StatusCode::kOk);
  CHECK(fixture.Ask(On(Opcode::kLength)).answer.number == 2);
  CHECK(fixture.Describe().bits_set >= 15);
}

TEST_CASE("AnInsertThatIsSentAgainIsAnsweredAsTheFirstTime") {
  Fixture fixture;
  RawClient& client = fixture.client;
  const wire::FrameHeader header = client.NextHeader();
  const std::vector<wire::Operation> inserts = {
      On(Opcode::kBloomInsert, "a"), On(Opcode::kBloomInsert, "b"), On(Opcode::kBloomInsert, "a")};
  const auto expect = [&] {
    CHECK(client.WaitAnswer().answer.code == StatusCode::kOk);
    CHECK(client.WaitAnswer().answer.code == StatusCode::kOk);
    CHECK(client.WaitAnswer().answer.code == StatusCode::kAlreadyExists);
  };
  client.Send(client.Request(header, fixture.node.term(), inserts));
  expect();
  // On the same connection, and after it was cut before the answer was read.
  client.Send(client.Request(header, fixture.node.term(), inserts));
  expect();
  client.CutConnection();
  REQUIRE(client.Attach());
  wire::FrameHeader again = header;
  again.connection = client.attached().connection;
  client.Send(client.Request(again, fixture.node.term(), inserts));
  expect();
  CHECK(fixture.Code(On(Opcode::kBloomInsert, "b")) == StatusCode::kAlreadyExists);
}

TEST_CASE("NeighboursThatAreNewAreAnsweredByOneEntry") {
  Fixture fixture;
  fixture.client.Call({On(Opcode::kBloomInsert, "a"), On(Opcode::kBloomInsert, "b"),
                       On(Opcode::kBloomInsert, "a"), On(Opcode::kBloomInsert, "c"),
                       On(Opcode::kBloomInsert, "d"), On(Opcode::kBloomInsert, "e")});
  const StatusCode expected[] = {StatusCode::kOk, StatusCode::kOk, StatusCode::kAlreadyExists,
                                 StatusCode::kOk, StatusCode::kOk, StatusCode::kOk};
  for (std::uint16_t i = 0; i < 6; ++i) {
    const OwnedAnswer answer = fixture.client.WaitAnswer();
    CHECK(answer.answer.index == i);
    CHECK(answer.answer.code == expected[i]);
  }
  CHECK(fixture.client.runs() == 2);
}

TEST_CASE("OperationsOfOtherKindsAreRefusedByName") {
  Fixture fixture;
  for (const wire::Operation& operation : {GetOp("a"), PutOp("a", "1"), AddOp("a", 1)}) {
    const OwnedAnswer answer = fixture.Ask(operation);
    CHECK(answer.answer.code == StatusCode::kInvalidArgument);
    CHECK(answer.value.find("kind") != std::string::npos);
  }
  TestNode hash;
  RawClient client(hash);
  client.Attach();
  client.Call({On(Opcode::kBloomInsert, "a")});
  CHECK(client.WaitAnswer().answer.code == StatusCode::kInvalidArgument);
}

TEST_CASE("ADownloadedFilterHasAllThatWasInsertedAndNothingElse") {
  Fixture fixture;
  CHECK(fixture.Download().find_first_not_of('\0') == std::string::npos);
  std::vector<std::string> values;
  for (int i = 0; i < 500; ++i) values.push_back("value-" + std::to_string(i));
  for (const std::string& value : values) fixture.Code(On(Opcode::kBloomInsert, value));
  const std::string filter = fixture.Download();
  for (const std::string& value : values) {
    CHECK(FilterContains(AsBytes(filter), KeyHash(AsBytes(value))));
  }
  std::uint64_t bits = 0;
  for (const char byte : filter) {
    bits += static_cast<std::uint64_t>(__builtin_popcount(static_cast<unsigned char>(byte)));
  }
  CHECK(bits == fixture.Describe().bits_set);
}

TEST_CASE("PlacesThatAreNotInTheFilterAreRefused") {
  Fixture fixture;
  const std::uint64_t bytes = fixture.Describe().shape.bytes();
  for (const std::uint64_t offset : {bytes, bytes + 32, std::uint64_t{1}, ~std::uint64_t{0}}) {
    CHECK(fixture.Code(ReadOp(offset)) == StatusCode::kInvalidArgument);
  }
}

TEST_CASE("APieceOfTheFilterIsAsLargeAsTheAnswerMayBe") {
  Fixture fixture;
  // Enough for the first block to have a bit.
  for (int i = 0; i < 100; ++i) fixture.Code(On(Opcode::kBloomInsert, std::to_string(i)));
  constexpr std::uint32_t kFixedBytes =
      limits::kAnswerHeaderBytes + 8 * limits::kAnswerArgumentsMax;
  fixture.client.reply_bytes_max = kFixedBytes + 100;
  const OwnedAnswer piece = fixture.Ask(ReadOp(32));
  CHECK(piece.answer.code == StatusCode::kOk);
  CHECK(piece.value.size() == 96);
  CHECK(piece.answer.number == 32 + 96);
  fixture.client.reply_bytes_max = kFixedBytes + 31;
  CHECK(fixture.Code(ReadOp(32)) == StatusCode::kInvalidArgument);
}

TEST_CASE("UnionTakesOverAllOfTheOtherFilterPieceByPiece") {
  Fixture fixture;
  fixture.Code(On(Opcode::kBloomInsert, "mine"));
  for (int i = 0; i < 1000; ++i) {
    const std::string value = "theirs-" + std::to_string(i);
    fixture.Code(On(Opcode::kBloomInsert, value), TestNode::like_it());
  }
  const std::uint64_t theirs = fixture.Describe(TestNode::like_it()).bits_set;
  std::uint64_t cursor = 0;
  do {
    const OwnedAnswer answer = fixture.Ask(UnionOp(TestNode::like_it().value(), cursor));
    REQUIRE(answer.answer.code == StatusCode::kOk);
    REQUIRE((answer.answer.number == 0 || answer.answer.number > cursor));
    cursor = answer.answer.number;
  } while (cursor != 0);
  for (int i = 0; i < 1000; ++i) {
    const std::string value = "theirs-" + std::to_string(i);
    CHECK(fixture.Code(On(Opcode::kBloomContains, value)) == StatusCode::kOk);
  }
  CHECK(fixture.Code(On(Opcode::kBloomContains, "mine")) == StatusCode::kOk);
  CHECK(fixture.Describe(TestNode::like_it()).bits_set == theirs);
  CHECK(fixture.Code(On(Opcode::kBloomContains, "mine"), TestNode::like_it()) ==
        StatusCode::kNotFound);
}

TEST_CASE("UnionWithWhatDoesNotFitIsRefusedAndChangesNothing") {
  Fixture fixture;
  fixture.Code(On(Opcode::kBloomInsert, "a"), TestNode::smaller());
  const OwnedAnswer shape = fixture.Ask(UnionOp(TestNode::smaller().value(), 0));
  CHECK(shape.answer.code == StatusCode::kFailedPrecondition);
  CHECK(shape.value.find("shape") != std::string::npos);
  const OwnedAnswer elsewhere = fixture.Ask(UnionOp(12, 0));
  CHECK(elsewhere.answer.code == StatusCode::kFailedPrecondition);
  CHECK(elsewhere.value.find("same core") != std::string::npos);
  CHECK(fixture.Code(UnionOp(~0ull, 0)) == StatusCode::kInvalidArgument);
  CHECK(fixture.Describe().bits_set == 0);
  // A place behind the end is the end.
  const OwnedAnswer behind = fixture.Ask(UnionOp(TestNode::like_it().value(), ~0ull));
  CHECK(behind.answer.code == StatusCode::kOk);
  CHECK(behind.answer.number == 0);
}

TEST_CASE("UnionWithAFilterThatIsBeingMovedIsRefusedUntilItStays") {
  Fixture fixture;
  fixture.Code(On(Opcode::kBloomInsert, "a"), TestNode::like_it());
  const PartitionId other(TestNode::like_it(), 0);
  const auto on_core = [&](const std::function<void(Core&)>& task) {
    REQUIRE(fixture.node.cores().Run(CoreId(0), task, Deadline::AfterMs(10'000)).ok());
  };
  on_core([&](Core& core) {
    REQUIRE(core.dispatcher().ownership().Freeze(other, Term(1)) == StatusCode::kOk);
  });
  // Another node may have it by now, and values that are not here.
  const OwnedAnswer refused = fixture.Ask(UnionOp(TestNode::like_it().value(), 0));
  CHECK(refused.answer.code == StatusCode::kFailedPrecondition);
  CHECK(refused.value.find("moved") != std::string::npos);
  CHECK(fixture.Describe().bits_set == 0);
  on_core([&](Core& core) { core.dispatcher().Thaw(other, Term(1)); });
  CHECK(fixture.Code(UnionOp(TestNode::like_it().value(), 0)) == StatusCode::kOk);
}

TEST_CASE("ABatchOverManyPartitionsTellsEachDistinctValueOnce") {
  Fixture fixture(8);
  std::set<std::string> told;
  std::vector<std::string> values;
  for (int i = 0; i < 600; ++i) values.push_back("v" + std::to_string(i % 400));
  for (std::size_t begin = 0; begin < values.size(); begin += 50) {
    std::vector<wire::Operation> inserts;
    for (std::size_t i = begin; i < begin + 50; ++i) {
      inserts.push_back(On(Opcode::kBloomInsert, values[i]));
    }
    fixture.client.ack_watermark = fixture.client.Call(inserts);
    for (std::size_t i = 0; i < inserts.size(); ++i) {
      const OwnedAnswer answer = fixture.client.WaitAnswer();
      if (answer.answer.code != StatusCode::kOk) continue;
      REQUIRE(told.insert(values[begin + answer.answer.index]).second);
    }
  }
  CHECK(told.size() == 400);
}

}  // namespace
}  // namespace tidepool::daemon
