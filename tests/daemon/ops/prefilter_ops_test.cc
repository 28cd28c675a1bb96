// The operations on prefilters, and the effect of a prefilter on other operations, frame by frame.
#include "daemon/ops/prefilter_ops.h"

#include <catch2/catch.hpp>
#include <string>

#include "proto/base/key_hash.h"
#include "proto/base/split_block.h"
#include "proto/wire/prefilter_ops.h"
#include "tests/daemon/raw_client.h"

namespace tidepool::daemon {
namespace {

using wire::Argument;
using wire::Opcode;

wire::Operation On(Opcode opcode, std::string_view key = {}) {
  wire::Operation operation;
  operation.opcode = opcode;
  operation.key = AsBytes(key);
  return operation;
}

wire::Operation ReadOp(std::uint64_t generation, std::uint64_t offset) {
  wire::Operation operation = On(Opcode::kPrefilterRead);
  operation.set(Argument::kOperand, generation);
  operation.set(Argument::kCursor, offset);
  return operation;
}

struct Fixture {
  explicit Fixture(std::string prefilter, Kind kind = Kind::kHash)
      : node(1, 256ull << 20, kind, 0, std::move(prefilter)), client(node) {
    client.Attach();
  }
  OwnedAnswer Ask(const wire::Operation& operation) {
    const std::uint64_t frame = client.Call({operation});
    OwnedAnswer answer = client.WaitAnswer();
    client.ack_watermark = frame + 1;
    return answer;
  }
  StatusCode Code(const wire::Operation& operation) { return Ask(operation).answer.code; }
  wire::PrefilterSummary Describe() {
    const OwnedAnswer answer = Ask(On(Opcode::kPrefilterDescribe));
    REQUIRE(answer.answer.code == StatusCode::kOk);
    return wire::LoadPrefilterSummary(AsBytes(answer.value)).value();
  }
  std::string Download(const wire::PrefilterSummary& summary) {
    std::string filter(summary.shape.bytes(), '\0');
    std::uint64_t at = 0;
    do {
      const OwnedAnswer answer = Ask(ReadOp(summary.generation, at));
      REQUIRE(answer.answer.code == StatusCode::kOk);
      filter.replace(at, answer.value.size(), answer.value);
      at = answer.answer.number;
    } while (at != 0);
    return filter;
  }

  TestNode node;
  RawClient client;
};

bool Contains(const std::string& filter, const std::string& key) {
  return FilterContains(AsBytes(filter), KeyHash(AsBytes(key)));
}

TEST_CASE("ADownloadedFilterHasEveryKey") {
  Fixture fixture("absent", GENERATE(Kind::kHash, Kind::kOrdered));
  for (int i = 0; i < 3'000; ++i) {
    REQUIRE(fixture.Code(PutOp("key" + std::to_string(i), "v")) == StatusCode::kOk);
  }
  const wire::PrefilterSummary summary = fixture.Describe();
  CHECK(summary.keys > 2'900);
  CHECK(summary.keys < 3'100);
  CHECK(summary.bytes >= summary.shape.bytes());
  CHECK(summary.false_positive_rate < 0.02);
  const std::string filter = fixture.Download(summary);
  int taken = 0;
  for (int i = 0; i < 3'000; ++i) {
    REQUIRE(Contains(filter, "key" + std::to_string(i)));
    taken += Contains(filter, "other" + std::to_string(i)) ? 1 : 0;
  }
  CHECK(taken < 100);
}

TEST_CASE("APieceOfAFilterThatWasMadeAnewIsRefused") {
  Fixture fixture("absent");
  const wire::PrefilterSummary first = fixture.Describe();
  // Three times the capacity of the smallest filter.
  for (int i = 0; i < 10'000; ++i) {
    REQUIRE(fixture.Code(PutOp("key" + std::to_string(i), "v")) == StatusCode::kOk);
  }
  fixture.client.Settle();
  const wire::PrefilterSummary second = fixture.Describe();
  CHECK(second.generation > first.generation);
  CHECK(second.shape.bytes() > first.shape.bytes());
  CHECK(fixture.Code(ReadOp(first.generation, 0)) == StatusCode::kAborted);
  CHECK(fixture.Code(ReadOp(second.generation, 0)) == StatusCode::kOk);
  CHECK(fixture.Code(ReadOp(second.generation, second.shape.bytes())) ==
        StatusCode::kInvalidArgument);
  CHECK(fixture.Code(ReadOp(second.generation, 1)) == StatusCode::kInvalidArgument);
  // Equal after the partition's next term.
  fixture.node.RaiseTerms();
  CHECK(fixture.Code(ReadOp(second.generation, 0)) == StatusCode::kAborted);
}

TEST_CASE("ThereIsNothingToDownloadOfOtherNamespaces") {
  Fixture fixture(GENERATE(std::string("none"), std::string("admit")));
  const wire::PrefilterSummary summary = fixture.Describe();
  CHECK(summary.shape.split_blocks == 0);
  CHECK(fixture.Code(ReadOp(summary.generation, 0)) == StatusCode::kFailedPrecondition);
}

TEST_CASE("ASightingThatIsSentAgainIsOne") {
  Fixture fixture("admit");
  RawClient& client = fixture.client;
  const wire::FrameHeader header = client.NextHeader();
  const auto send = [&](const wire::FrameHeader& with) {
    client.Send(client.Request(with, fixture.node.term(), {AddOp("a", 1)}));
    const OwnedAnswer answer = client.WaitAnswer();
    CHECK(answer.answer.code == StatusCode::kOk);
    CHECK_FALSE(answer.answer.has_version);
    CHECK(answer.answer.number == 0);
  };
  send(header);
  // On the same connection, and after it was cut before the answer was read.
  send(header);
  client.CutConnection();
  REQUIRE(client.Attach());
  wire::FrameHeader again = header;
  again.connection = client.attached().connection;
  send(again);
  CHECK(fixture.Code(GetOp("a")) == StatusCode::kNotFound);
  CHECK(fixture.Describe().keys == 1);
  CHECK(fixture.Ask(AddOp("a", 1)).answer.has_version);
  CHECK(fixture.Code(GetOp("a")) == StatusCode::kOk);
}

TEST_CASE("ACounterIsChangedAlwaysOrIfPresent") {
  Fixture fixture("none");
  wire::Operation add = AddOp("a", 1);
  add.condition = wire::PutCondition::kIfPresent;
  CHECK(fixture.Code(add) == StatusCode::kNotFound);
  CHECK(fixture.Code(AddOp("a", 1)) == StatusCode::kOk);
  CHECK(fixture.Ask(add).answer.number == 1);
  add.condition = wire::PutCondition::kIfAbsent;
  CHECK(fixture.Code(add) == StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tidepool::daemon
