// The operations on ranges, frame by frame: pages, their rests, and repeated requests.
#include "daemon/ops/ordered_ops.h"

#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

#include "proto/wire/chain.h"
#include "proto/wire/ordered_ops.h"
#include "proto/wire/record_list.h"
#include "tests/daemon/raw_client.h"

namespace tidepool::daemon {
namespace {

using wire::Argument;
using wire::Opcode;
using wire::RangeRest;

constexpr std::uint64_t kMemoryBytes = 256ull << 20;
constexpr std::uint32_t kFixedBytes = limits::kAnswerHeaderBytes + 8 * limits::kAnswerArgumentsMax;

struct Range {
  std::string begin;
  std::optional<std::string> end;
  std::uint64_t options = 0;
};

wire::Operation On(Opcode opcode, const Range& range, std::uint64_t records_max = 0) {
  wire::Operation operation;
  operation.opcode = opcode;
  operation.key = AsBytes(range.begin);
  std::uint64_t options = range.options;
  if (range.end.has_value()) {
    operation.value = AsBytes(*range.end);
    options |= wire::kRangeHasEnd;
  }
  if (opcode == Opcode::kScan) operation.set(Argument::kOperand, records_max);
  operation.set(Argument::kOptions, options);
  return operation;
}

struct Page {
  std::vector<std::string> keys;
  std::vector<std::string> values;
  std::vector<bool> omitted;
  RangeRest::Kind rest = RangeRest::Kind::kDone;
  std::string rest_key;
};

struct Fixture {
  Fixture() : node(1, kMemoryBytes, Kind::kOrdered), client(node) { client.Attach(); }
  OwnedAnswer Ask(const wire::Operation& operation) {
    const std::uint64_t frame = client.Call({operation});
    OwnedAnswer answer = client.WaitAnswer();
    client.ack_watermark = frame + 1;
    return answer;
  }
  StatusCode Code(const wire::Operation& operation) { return Ask(operation).answer.code; }
  void Put(const std::string& key, const std::string& value) {
    REQUIRE(Code(PutOp(key, value)) == StatusCode::kOk);
  }
  Page Scan(const Range& range, std::uint64_t records_max = 0) {
    const OwnedAnswer answer = Ask(On(Opcode::kScan, range, records_max));
    INFO(answer.value);
    REQUIRE(answer.answer.code == StatusCode::kOk);
    REQUIRE(answer.answer.number <= answer.value.size());
    const Bytes bytes = AsBytes(answer.value);
    Bytes list = bytes.first(bytes.size() - answer.answer.number);
    Page page;
    while (!list.empty()) {
      wire::ListedRecord record;
      REQUIRE(wire::TakeRecord(&list, &record).ok());
      page.keys.emplace_back(AsText(record.key));
      page.values.emplace_back(AsText(record.value));
      page.omitted.push_back(record.value_omitted);
    }
    const auto rest = wire::LoadRangeRest(bytes.last(answer.answer.number));
    REQUIRE(rest.ok());
    page.rest = rest->kind;
    page.rest_key = AsText(rest->key);
    return page;
  }

  TestNode node;
  RawClient client;
};

using Keys = std::vector<std::string>;

TEST_CASE("AScanListsARangeInOrderBothWays") {
  Fixture fixture;
  for (const char* key : {"b", "d", "a", "c", "e"}) fixture.Put(key, std::string("v") + key);
  const Page all = fixture.Scan({});
  CHECK(all.keys == Keys{"a", "b", "c", "d", "e"});
  CHECK(all.values == Keys{"va", "vb", "vc", "vd", "ve"});
  CHECK(all.rest == RangeRest::Kind::kDone);
  CHECK(fixture.Scan({"b", "d"}).keys == Keys{"b", "c"});
  CHECK(fixture.Scan({"b", "d", wire::kRangeAfterBegin}).keys == Keys{"c"});
  CHECK(fixture.Scan({"b", "d", wire::kScanReverse}).keys == Keys{"c", "b"});
  CHECK(fixture.Scan({"bb", std::nullopt, wire::kScanReverse}).keys == Keys{"e", "d", "c"});
  CHECK(fixture.Scan({"d", "b"}).keys.empty());
  CHECK(fixture.Scan({"d", "b", wire::kScanReverse}).keys.empty());
  CHECK(fixture.Scan({"", ""}).keys.empty());
  const Page keys = fixture.Scan({"d", std::nullopt, wire::kScanKeysOnly});
  CHECK(keys.keys == Keys{"d", "e"});
  CHECK(keys.values == Keys{"", ""});
}

TEST_CASE("ALimitedScanSaysThatThereIsMore") {
  Fixture fixture;
  for (const char* key : {"a", "b", "c"}) fixture.Put(key, "v");
  const Page two = fixture.Scan({}, 2);
  CHECK(two.keys == Keys{"a", "b"});
  CHECK(two.rest == RangeRest::Kind::kBehindListed);
  const Page last = fixture.Scan({"b", std::nullopt, wire::kRangeAfterBegin}, 2);
  CHECK(last.keys == Keys{"c"});
  CHECK(last.rest == RangeRest::Kind::kDone);
}

TEST_CASE("APageIsAsLargeAsTheAnswerMayBeAndGoesOnBehindIt") {
  Fixture fixture;
  for (int i = 100; i < 200; ++i) fixture.Put("k" + std::to_string(i), std::string(50, 'v'));
  // Three records of 24 + 4 + 50 bytes and the byte of the rest.
  fixture.client.reply_bytes_max = kFixedBytes + 3 * 78 + 1;
  Range range;
  Keys seen;
  for (;;) {
    const Page page = fixture.Scan(range);
    CHECK(page.keys.size() <= 3);
    seen.insert(seen.end(), page.keys.begin(), page.keys.end());
    if (page.rest == RangeRest::Kind::kDone) break;
    REQUIRE(page.rest == RangeRest::Kind::kBehindListed);
    range = {page.keys.back(), std::nullopt, wire::kRangeAfterBegin};
  }
  REQUIRE(seen.size() == 100);
  CHECK(seen.front() == "k100");
  CHECK(seen.back() == "k199");
  fixture.client.reply_bytes_max = kFixedBytes + 20;
  CHECK(fixture.Code(On(Opcode::kScan, {})) == StatusCode::kInvalidArgument);
}

TEST_CASE("AValueThatHasNoRoomIsLeftOut") {
  Fixture fixture;
  fixture.Put("a", std::string(32'768, 'a'));
  fixture.Put("b", std::string(32'768, 'b'));
  const Page first = fixture.Scan({});
  CHECK(first.keys == Keys{"a"});
  CHECK(first.values.front().size() == 32'768);
  fixture.client.reply_bytes_max = kFixedBytes + 1000;
  const Page small = fixture.Scan({"b"});
  CHECK(small.keys == Keys{"b"});
  CHECK(small.omitted.front());
}

TEST_CASE("CountAndEraseGoOnBehindTheLastKey") {
  Fixture fixture;
  for (int i = 1000; i < 3000; ++i) fixture.Put("k" + std::to_string(i), "v");
  const auto sum = [&](Opcode opcode, Range range, int* pieces) {
    std::uint64_t total = 0;
    for (*pieces = 1;; ++*pieces) {
      const OwnedAnswer answer = fixture.Ask(On(opcode, range));
      REQUIRE(answer.answer.code == StatusCode::kOk);
      total += answer.answer.number;
      const auto rest = wire::LoadRangeRest(AsBytes(answer.value));
      REQUIRE(rest.ok());
      if (rest->kind == RangeRest::Kind::kDone) return total;
      REQUIRE(rest->kind == RangeRest::Kind::kBehindKey);
      range.begin = AsText(rest->key);
      range.options = wire::kRangeAfterBegin;
    }
  };
  int pieces = 0;
  CHECK(sum(Opcode::kCountRange, {"k1500", "k2500"}, &pieces) == 1000);
  CHECK(sum(Opcode::kEraseRange, {"k1500", "k2500"}, &pieces) == 1000);
  CHECK(pieces > 1);
  CHECK(sum(Opcode::kCountRange, {}, &pieces) == 1000);
  CHECK(sum(Opcode::kEraseRange, {"k1500", "k2500"}, &pieces) == 0);
  CHECK(fixture.Scan({"k1499"}, 2).keys == Keys{"k1499", "k2500"});
  wire::Operation length;
  length.opcode = Opcode::kLength;
  CHECK(fixture.Ask(length).answer.number == 1000);
}

TEST_CASE("AnEraseThatIsSentAgainIsAnsweredAsTheFirstTime") {
  Fixture fixture;
  for (const char* key : {"a", "b", "c"}) fixture.Put(key, "v");
  RawClient& client = fixture.client;
  const wire::FrameHeader header = client.NextHeader();
  const Range range{"a", "c"};
  const std::vector<wire::Operation> erase = {On(Opcode::kEraseRange, range)};
  client.Send(client.Request(header, fixture.node.term(), erase));
  CHECK(client.WaitAnswer().answer.number == 2);
  fixture.client.Call({PutOp("b", "new")});
  CHECK(client.WaitAnswer().answer.code == StatusCode::kOk);
  client.Send(client.Request(header, fixture.node.term(), erase));
  CHECK(client.WaitAnswer().answer.number == 2);
  client.CutConnection();
  REQUIRE(client.Attach());
  wire::FrameHeader again = header;
  again.connection = client.attached().connection;
  client.Send(client.Request(again, fixture.node.term(), erase));
  CHECK(client.WaitAnswer().answer.number == 2);
  CHECK(fixture.Scan({}).keys == Keys{"b", "c"});
}

TEST_CASE("RangesThatAreNoneAreRefused") {
  Fixture fixture;
  fixture.Put("a", "v");
  CHECK(fixture.Code(On(Opcode::kScan, {"", {}, 16})) == StatusCode::kInvalidArgument);
  CHECK(fixture.Code(On(Opcode::kCountRange, {"", {}, wire::kScanReverse})) ==
        StatusCode::kInvalidArgument);
  CHECK(fixture.Code(On(Opcode::kEraseRange, {"", {}, wire::kScanKeysOnly})) ==
        StatusCode::kInvalidArgument);
  const std::string end = "b";
  wire::Operation no_end = On(Opcode::kEraseRange, {});
  no_end.value = AsBytes(end);
  CHECK(fixture.Code(no_end) == StatusCode::kInvalidArgument);
  // An answer that could not say where to go on is refused before anything is erased.
  fixture.client.reply_bytes_max = kFixedBytes + 100;
  CHECK(fixture.Code(On(Opcode::kEraseRange, {})) == StatusCode::kInvalidArgument);
  fixture.client.reply_bytes_max = 60 * 1024;
  CHECK(fixture.Scan({}).keys == Keys{"a"});
}

TEST_CASE("OtherKindsHaveNoRanges") {
  TestNode hash;
  RawClient client(hash);
  client.Attach();
  for (const Opcode opcode : {Opcode::kScan, Opcode::kCountRange, Opcode::kEraseRange}) {
    client.Call({On(opcode, {})});
    const OwnedAnswer answer = client.WaitAnswer();
    CHECK(answer.answer.code == StatusCode::kInvalidArgument);
    CHECK(answer.value.find("kind") != std::string::npos);
  }
}

TEST_CASE("APartitionAnswersForItsOwnRangeAndSaysWhereTheNextBegins") {
  Fixture fixture;
  for (const char* key : {"a", "b", "c"}) fixture.Put(key, "v");
  // Like after a split, but the moved-out records are still there: no answer shows them.
  fixture.node.SetRanges({"", "b"});
  fixture.node.Address(0);
  const Page first = fixture.Scan({});
  CHECK(first.keys == Keys{"a"});
  CHECK(first.rest == RangeRest::Kind::kFromKey);
  CHECK(first.rest_key == "b");
  CHECK(fixture.Scan({"", "b"}).rest == RangeRest::Kind::kDone);
  CHECK(fixture.Scan({"", "a", wire::kScanReverse}).keys.empty());
  CHECK(fixture.Scan({"", "b", wire::kScanReverse}).keys == Keys{"a"});
  const OwnedAnswer counted = fixture.Ask(On(Opcode::kCountRange, {}));
  CHECK(counted.answer.number == 1);
  CHECK(AsText(wire::LoadRangeRest(AsBytes(counted.value))->key) == "b");
  const OwnedAnswer erased = fixture.Ask(On(Opcode::kEraseRange, {}));
  CHECK(erased.answer.number == 1);
  CHECK(wire::LoadRangeRest(AsBytes(erased.value))->kind == RangeRest::Kind::kFromKey);
  fixture.node.Address(1);
  for (const char* key : {"b1", "c1"}) fixture.Put(key, "v");
  const Page down = fixture.Scan({"", std::nullopt, wire::kScanReverse});
  CHECK(down.keys == Keys{"c1", "b1"});
  CHECK(down.rest == RangeRest::Kind::kBehindKey);
  CHECK(down.rest_key == "b");
}

TEST_CASE("WhatWasRoutedByAnOldMapIsRefused") {
  Fixture fixture;
  fixture.Put("c", "v");
  const Term before = fixture.node.term();
  fixture.node.SetRanges({"", "b"});
  fixture.node.Address(0);
  // Under the old term the whole group, whatever its keys.
  const wire::FrameHeader header = fixture.client.NextHeader();
  fixture.client.Send(fixture.client.Request(header, before, {PutOp("a", "v"), PutOp("c", "w")}));
  const OwnedAnswer refused = fixture.client.WaitAnswer();
  CHECK(refused.answer.scope == wire::Answer::Scope::kGroup);
  CHECK(refused.answer.code == StatusCode::kWrongEpoch);
  fixture.client.ack_watermark = header.frame_id + 1;
  CHECK(fixture.Code(GetOp("a")) == StatusCode::kNotFound);
  // Under the new term, a key of another range is the sender's fault.
  CHECK(fixture.Code(GetOp("c")) == StatusCode::kInvalidArgument);
  CHECK(fixture.Code(PutOp("c", "w")) == StatusCode::kInvalidArgument);
  for (const Opcode opcode : {Opcode::kScan, Opcode::kCountRange, Opcode::kEraseRange}) {
    CHECK(fixture.Code(On(opcode, {"c", std::nullopt})) == StatusCode::kInvalidArgument);
  }
  CHECK(fixture.Code(On(Opcode::kScan, {"", "c", wire::kScanReverse})) ==
        StatusCode::kInvalidArgument);
  CHECK(fixture.Code(On(Opcode::kScan, {"", std::nullopt, wire::kScanReverse})) ==
        StatusCode::kInvalidArgument);
  // A partition that only a newer map knows: it waits for the map.
  fixture.node.Address(2);
  const wire::FrameHeader early = fixture.client.NextHeader();
  fixture.client.Send(
      fixture.client.Request(early, Term(fixture.node.term().value() + 1), {PutOp("x", "v")}));
  fixture.node.Address(std::nullopt);
  fixture.client.Settle();
  CHECK_FALSE(fixture.client.HasAnswer());
  fixture.node.SetRanges({"", "b", "x"});
  CHECK(fixture.client.WaitAnswer().answer.code == StatusCode::kOk);
}

TEST_CASE("AChainOverTwoRangesIsRefusedBeforeItsFirstStep") {
  Fixture fixture;
  fixture.node.SetRanges({"", "b"});
  std::string chain;
  for (const char* key : {"a", "c"}) {
    wire::ChainStep step;
    step.operation = PutOp(key, "v");
    wire::EncodeChainStep(step, &chain);
  }
  wire::Operation operation;
  operation.opcode = Opcode::kChain;
  operation.key = AsBytes(std::string_view("a"));
  operation.value = AsBytes(chain);
  const OwnedAnswer refused = fixture.Ask(operation);
  CHECK(refused.answer.code == StatusCode::kFailedPrecondition);
  CHECK(refused.value.find("different ranges") != std::string::npos);
  CHECK(fixture.Code(GetOp("a")) == StatusCode::kNotFound);
}

TEST_CASE("OperationsOnSingleKeysWorkAsOnHashPartitions") {
  Fixture fixture;
  CHECK(fixture.Ask(AddOp("n", 5)).answer.number == 0);
  CHECK(fixture.Ask(AddOp("n", 5)).answer.number == 5);
  fixture.Put("k", "value");
  CHECK(fixture.Ask(GetOp("k")).value == "value");
  wire::Operation iterate;
  iterate.opcode = Opcode::kIterate;
  iterate.set(Argument::kOperand, 0);
  iterate.set(Argument::kCursor, 0);
  iterate.set(Argument::kOptions, 0);
  // The order of hashes would not outlive a split.
  CHECK(fixture.Code(iterate) == StatusCode::kInvalidArgument);
  CHECK(fixture.Scan({}).keys == Keys{"k", "n"});
}

}  // namespace
}  // namespace tidepool::daemon
