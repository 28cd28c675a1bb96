// Counts of users' operations: each once, whatever happens to its frame; no operation of tools.
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "daemon/core/core_group.h"
#include "tests/daemon/raw_client.h"

namespace tidepool::daemon {
namespace {

using wire::Argument;
using wire::Opcode;

wire::Operation Of(Opcode opcode, std::string_view key = {}) {
  wire::Operation operation = GetOp(key);
  operation.opcode = opcode;
  return operation;
}

wire::Operation WaitOp(std::string_view key) {
  wire::Operation operation = Of(Opcode::kWait, key);
  operation.set(Argument::kWaitMs, 60'000);
  return operation;
}

// Counts of core 0, which has all partitions.
struct Counted {
  explicit Counted(TestNode& node) {
    const std::vector<CoreStats> cores = node.cores().Stats(Deadline::AfterMs(60'000));
    REQUIRE(cores.at(0).answered);
    operations = cores[0].operations;
    direct_reads = cores[0].direct_reads;
    for (const SpaceStats& space : cores[0].spaces) {
      if (space.space != TestNode::space()) continue;
      for (const auto& [opcode, count] : space.operations) by_opcode[opcode] = count;
      reads = space.reads;
      changes = space.changes;
      frames = space.frames.count();
      space_direct_reads = space.direct_reads;
    }
  }
  std::uint64_t operations = 0;
  std::uint64_t direct_reads = 0;
  std::map<Opcode, std::uint64_t> by_opcode;
  std::uint64_t reads = 0;
  std::uint64_t changes = 0;
  std::uint64_t frames = 0;
  std::uint64_t space_direct_reads = 0;
};

}  // namespace

TEST_CASE("EachOperationOfAFrameCountsOnce") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  client.Call({PutOp("a", "1"), PutOp("b", "2"), GetOp("a"), Of(Opcode::kContains, "b")});
  for (int i = 0; i < 4; ++i) REQUIRE(client.WaitAnswer().answer.code == StatusCode::kOk);
  const Counted counted(node);
  CHECK(counted.operations == 4);
  CHECK(counted.by_opcode == std::map<Opcode, std::uint64_t>{
                                 {Opcode::kGet, 1}, {Opcode::kPut, 2}, {Opcode::kContains, 1}});
  CHECK(counted.reads == 2);
  CHECK(counted.changes == 2);
  CHECK(counted.frames == 1);
}

TEST_CASE("AFrameThatComesAgainCountsNothing") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  const std::string frame =
      client.Request(client.NextHeader(), node.term(), {PutOp("a", "1"), GetOp("a")});
  for (int i = 0; i < 3; ++i) {
    client.Send(frame);
    for (int k = 0; k < 2; ++k) REQUIRE(client.WaitAnswer().answer.code == StatusCode::kOk);
  }
  const Counted counted(node);
  CHECK(counted.operations == 2);
  CHECK(counted.by_opcode == std::map<Opcode, std::uint64_t>{{Opcode::kGet, 1}, {Opcode::kPut, 1}});
}

TEST_CASE("AnOperationThatWaitsCountsOnce") {
  TestNode node;
  RawClient waiter(node);
  RawClient writer(node);
  waiter.Attach();
  writer.Attach();
  waiter.Call({WaitOp("k")});
  waiter.Settle();  // By a get of its own.
  CHECK(Counted(node).operations == 2);
  writer.Call({PutOp("k", "v")});
  REQUIRE(writer.WaitAnswer().answer.code == StatusCode::kOk);
  REQUIRE(waiter.WaitAnswer().value == "v");
  const Counted counted(node);
  CHECK(counted.operations == 3);
  CHECK(counted.by_opcode ==
        std::map<Opcode, std::uint64_t>{{Opcode::kGet, 1}, {Opcode::kWait, 1}, {Opcode::kPut, 1}});
}

TEST_CASE("WhatTheLibraryAsksByItselfCountsForNobody") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  client.Call({Of(Opcode::kShow), Of(Opcode::kPrefilterDescribe)});
  for (int i = 0; i < 2; ++i) (void)client.WaitAnswer();
  const Counted counted(node);
  CHECK(counted.operations == 0);
  CHECK(counted.by_opcode.empty());
  CHECK(counted.frames == 0);
}

TEST_CASE("OperationsOfAToolsSessionCountForNobody") {
  TestNode node;
  RawClient client(node);
  client.uncounted = true;
  client.Attach();
  client.Call({PutOp("a", "1"), GetOp("a")});
  for (int i = 0; i < 2; ++i) REQUIRE(client.WaitAnswer().answer.code == StatusCode::kOk);
  // Nor after the session has come back.
  client.CutConnection();
  REQUIRE(client.Attach());
  client.Call({GetOp("a")});
  REQUIRE(client.WaitAnswer().answer.code == StatusCode::kOk);
  const Counted counted(node);
  CHECK(counted.operations == 0);
  CHECK(counted.by_opcode.empty());
  CHECK(counted.reads == 0);
  CHECK(counted.frames == 0);
}

TEST_CASE("ReadsByRdmaCountAsTheirClientSays") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  wire::Operation show = Of(Opcode::kShow);
  show.set(Argument::kOperand, 5);
  show.set(Argument::kCursor, 0);
  show.set(Argument::kOptions, 3);
  client.Call({show});
  REQUIRE(client.WaitAnswer().answer.code == StatusCode::kOk);
  const Counted counted(node);
  CHECK(counted.operations == 0);
  CHECK(counted.direct_reads == 8);
  CHECK(counted.space_direct_reads == 8);
  CHECK(counted.by_opcode ==
        std::map<Opcode, std::uint64_t>{{Opcode::kGet, 5}, {Opcode::kContains, 3}});
  CHECK(counted.reads == 8);
}

TEST_CASE("OperationsOfCallsCountOnceAndOnlyUsers") {
  TestNode node;
  const auto run = [&](const std::vector<wire::Operation>& operations, std::size_t value_bytes_max,
                       bool is_users) {
    const auto outcomes = node.cores().Execute(
        CoreId(0), node.PartitionOf("k"), node.term(), operations, value_bytes_max,
        Deadline::AfterMs(60'000), kCallAnswerBytesMax, is_users);
    REQUIRE(outcomes.ok());
  };
  const std::string large(200'000, 'v');
  run({PutOp("k", large)}, 0, true);
  run({GetOp("k"), GetOp("none")}, 1'000'000, true);
  CHECK(Counted(node).operations == 3);
  // A value that is left out will be asked for again.
  run({GetOp("k")}, 1'000, true);
  CHECK(Counted(node).operations == 3);
  run({GetOp("k"), PutOp("k", "w")}, 1'000'000, false);
  const Counted counted(node);
  CHECK(counted.operations == 3);
  CHECK(counted.reads == 2);
  CHECK(counted.by_opcode == std::map<Opcode, std::uint64_t>{{Opcode::kGet, 2}, {Opcode::kPut, 1}});
}

}  // namespace tidepool::daemon
