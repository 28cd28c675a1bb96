// Operations of gRPC threads on a core: the bounds of their answers, and values that stay in place.
#include "daemon/core/local_operations.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "daemon/core/core.h"
#include "proto/wire/queue_ops.h"
#include "tests/daemon/raw_client.h"

namespace tidepool::daemon {
namespace {

constexpr std::size_t kMiB = 1024 * 1024;
using Outcomes = std::vector<OperationOutcome>;

wire::Operation Of(wire::Opcode opcode, std::string_view key) {
  wire::Operation operation = GetOp(key);
  operation.opcode = opcode;
  return operation;
}

Outcomes Run(TestNode& node, const std::vector<wire::Operation>& operations,
             std::size_t value_bytes_max = kCallValueBytesMax,
             std::size_t answer_bytes_max = kCallAnswerBytesMax) {
  auto outcomes =
      node.cores().Execute(CoreId(0), node.PartitionOf("k"), node.term(), operations,
                           value_bytes_max, Deadline::AfterMs(60'000), answer_bytes_max);
  REQUIRE(outcomes.ok());
  REQUIRE(outcomes->size() == operations.size());
  return *std::move(outcomes);
}

std::size_t ValueBytes(const Outcomes& outcomes) {
  std::size_t bytes = 0;
  for (const OperationOutcome& outcome : outcomes) bytes += outcome.value.size();
  return bytes;
}

TEST_CASE("ATakeOfAValueThatTheAnswerCannotHoldLeavesIt") {
  TestNode node;
  const std::string large(kMiB + 1, 'L');
  REQUIRE(Run(node, {PutOp("k", large)})[0].code == StatusCode::kOk);
  const OperationOutcome refused = Run(node, {Of(wire::Opcode::kTake, "k")})[0];
  CHECK(refused.code == StatusCode::kOutOfRange);
  CHECK(refused.value.find("left where it is") != std::string::npos);
  const OperationOutcome there = Run(node, {GetOp("k")}, 2 * kMiB)[0];
  CHECK(there.value == large);
  // With room it is taken, and gone.
  CHECK(Run(node, {Of(wire::Opcode::kTake, "k")}, 2 * kMiB)[0].value == large);
  CHECK(Run(node, {GetOp("k")})[0].code == StatusCode::kNotFound);
}

TEST_CASE("AllValuesOfACallTogetherAreBounded") {
  TestNode node;
  const std::string value(kMiB, 'v');
  REQUIRE(Run(node, {PutOp("k", value)})[0].code == StatusCode::kOk);
  const Outcomes outcomes = Run(node, std::vector<wire::Operation>(kCallOperationsMax, GetOp("k")));
  CHECK(ValueBytes(outcomes) == kCallAnswerBytesMax);
  std::size_t omitted = 0;
  for (const OperationOutcome& outcome : outcomes) {
    CHECK(outcome.code == StatusCode::kOk);
    if (!outcome.value_omitted) continue;
    ++omitted;
    CHECK(outcome.number == kMiB);
  }
  CHECK(omitted == kCallOperationsMax - 3);
}

TEST_CASE("WhatTheAnswerHasNoRoomForIsNotTaken") {
  TestNode node;
  std::vector<std::string> keys;
  for (int i = 0; i < 10; ++i) keys.push_back("k" + std::to_string(i));
  std::vector<wire::Operation> puts;
  std::vector<wire::Operation> takes;
  const std::string value(30'000, 'v');
  for (const std::string& key : keys) {
    puts.push_back(PutOp(key, value));
    takes.push_back(Of(wire::Opcode::kTake, key));
  }
  Run(node, puts);
  const Outcomes taken = Run(node, takes, kMiB, 100'000);
  const Outcomes again = Run(node, takes, kMiB, kMiB);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    INFO(i);
    CHECK(taken[i].code == (i < 3 ? StatusCode::kOk : StatusCode::kOutOfRange));
    CHECK(again[i].code == (i < 3 ? StatusCode::kNotFound : StatusCode::kOk));
    CHECK((i < 3 ? taken[i] : again[i]).value == value);
  }
}

TEST_CASE("ItemsThatTheAnswerHasNoRoomForStayInTheQueue") {
  TestNode node(1, 256ull << 20, Kind::kQueue);
  const std::string value(30'000, 'v');
  wire::Operation push = Of(wire::Opcode::kPush, "");
  push.value = AsBytes(value);
  wire::Operation pop = Of(wire::Opcode::kPop, "");
  pop.set(wire::Argument::kOperand, 100);
  Run(node, std::vector<wire::Operation>(10, push));
  // The first answer's list has room for three, the second answer's list for none.
  const Outcomes popped = Run(node, {pop, pop}, kMiB, 100'000);
  CHECK(popped[0].code == StatusCode::kOk);
  CHECK(popped[1].code == StatusCode::kOutOfRange);
  const Outcomes length = Run(node, {Of(wire::Opcode::kQueueLength, "")});
  CHECK(wire::LoadQueueLengths(AsBytes(length[0].value))->ready == 7);
}

// Returns how often another thread saw a part of a long call's effect.
std::size_t SeenInTheMiddleOfACall() {
  TestNode node;
  constexpr std::size_t kPuts = 200'000;
  std::vector<std::string> keys;
  std::vector<wire::Operation> puts;
  for (std::size_t i = 0; i < kPuts; ++i) keys.push_back("k" + std::to_string(i));
  for (const std::string& key : keys) puts.push_back(PutOp(key, "v"));
  std::atomic<bool> over{false};
  std::size_t seen_in_the_middle = 0;
  std::thread other([&] {
    while (!over) {
      std::uint64_t records = 0;
      const PartitionId id = node.PartitionOf("k");
      (void)node.cores().Run(
          CoreId(0), [&](Core& core) { records = core.store().Find(id)->records(); },
          Deadline::AfterMs(60'000));
      if (records > 0 && records < kPuts) ++seen_in_the_middle;
    }
  });
  const Outcomes outcomes = Run(node, puts);
  over = true;
  other.join();
  CHECK(std::all_of(outcomes.begin(), outcomes.end(),
                    [](const auto& outcome) { return outcome.code == StatusCode::kOk; }));
  return seen_in_the_middle;
}

TEST_CASE("TheCoreServesOthersWhileALongCallIsUnderWay") {
  // On a busy machine no other thread may run during a call.
  std::size_t seen = 0;
  for (int calls = 0; calls < 20 && seen == 0; ++calls) seen = SeenInTheMiddleOfACall();
  CHECK(seen > 0);
}

TEST_CASE("WhatIsRefusedInTheMiddleOfACallEndsOnlyItself") {
  TestNode node;
  constexpr std::size_t kPuts = 100 * kSliceOperations;
  std::vector<std::string> keys;
  std::vector<wire::Operation> puts;
  for (std::size_t i = 0; i < kPuts; ++i) keys.push_back("k" + std::to_string(i));
  for (const std::string& key : keys) puts.push_back(PutOp(key, "v"));
  // The partition gets another term as soon as the first slices have run.
  const PartitionId id = node.PartitionOf("k");
  std::thread other([&] {
    std::uint64_t records = 0;
    const Deadline patience = Deadline::AfterMs(60'000);
    while (records == 0 && !patience.Passed()) {
      (void)node.cores().Run(
          CoreId(0),
          [&](Core& core) {
            records = core.store().Find(id)->records();
            if (records > 0) (void)core.dispatcher().ownership().Freeze(id, Term(1));
          },
          Deadline::AfterMs(60'000));
    }
  });
  const Outcomes outcomes = Run(node, puts);
  other.join();
  std::size_t stored = 0;
  while (stored < outcomes.size() && outcomes[stored].code == StatusCode::kOk) ++stored;
  CHECK(stored > 0);
  CHECK(stored % kSliceOperations == 0);
  for (std::size_t i = stored; i < outcomes.size(); ++i) {
    REQUIRE(outcomes[i].code == StatusCode::kWrongEpoch);
  }
  std::uint64_t records = 0;
  REQUIRE(node.cores()
              .Run(
                  CoreId(0), [&](Core& core) { records = core.store().Find(id)->records(); },
                  Deadline::AfterMs(60'000))
              .ok());
  CHECK(records == stored);
}

}  // namespace
}  // namespace tidepool::daemon
