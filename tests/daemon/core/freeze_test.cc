// A partition with contents on the way to another place. New operations are kept back in their
// order. They are neither executed nor refused until their place is known.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "daemon/core/core.h"
#include "proto/wire/queue_ops.h"
#include "tests/daemon/raw_client.h"

namespace tidepool::daemon {
namespace {

using wire::Argument;
using wire::Opcode;

wire::Operation PushOp(std::string_view value) {
  wire::Operation operation;
  operation.opcode = Opcode::kPush;
  operation.value = AsBytes(value);
  return operation;
}

wire::Operation PopOp(std::uint64_t wait_ms = 0) {
  wire::Operation operation;
  operation.opcode = Opcode::kPop;
  operation.set(Argument::kOperand, 1);
  if (wait_ms != 0) operation.set(Argument::kWaitMs, wait_ms);
  return operation;
}

std::string Value(const OwnedAnswer& answer) {
  wire::DeliveredItem item;
  Bytes rest = AsBytes(answer.value);
  REQUIRE(answer.answer.code == StatusCode::kOk);
  REQUIRE(wire::TakeDeliveredItem(&rest, &item).ok());
  return std::string(AsText(item.value));
}

// The frozen partition, which has the operations without a key, differs from the partition of
// Settle's frames.
constexpr std::uint32_t kPartitions = 4;

struct Fixture {
  Fixture() : node(kPartitions, 256ull << 20, Kind::kQueue), client(node), other(node) {
    REQUIRE(node.PartitionOf("settle") != frozen);
    client.Attach();
    other.Attach();
  }
  void OnCore(const std::function<void(Core&)>& task) {
    REQUIRE(node.cores().Run(CoreId(0), task, Deadline::AfterMs(10'000)).ok());
  }
  StatusCode Freeze(Term term) {
    StatusCode code = StatusCode::kOk;
    OnCore([&](Core& core) { code = core.dispatcher().ownership().Freeze(frozen, term); });
    return code;
  }
  void Thaw(Term term) {
    OnCore([&](Core& core) { core.dispatcher().Thaw(frozen, term); });
  }
  StatusCode Ask(const wire::Operation& operation) {
    client.Call({operation});
    return client.WaitAnswer().answer.code;
  }

  TestNode node;
  const PartitionId frozen = node.PartitionOf("");
  RawClient client;
  RawClient other;
};

TEST_CASE("WhatComesForAFrozenPartitionRunsInItsOrderAfterTheThaw") {
  Fixture fixture;
  REQUIRE(fixture.Freeze(Term(1)) == StatusCode::kOk);
  fixture.client.Call({PushOp("a")});
  fixture.client.Call({PushOp("b"), PushOp("c")});
  fixture.client.Call({PopOp()});
  fixture.client.Settle();
  CHECK_FALSE(fixture.client.HasAnswer());
  fixture.node.SetMemoryShare(0);  // A map that says nothing new of the partition.
  fixture.client.Settle();
  CHECK_FALSE(fixture.client.HasAnswer());
  fixture.Thaw(Term(1));
  for (std::uint64_t id = 1; id <= 3; ++id) CHECK(fixture.client.WaitAnswer().answer.number == id);
  CHECK(Value(fixture.client.WaitAnswer()) == "a");
  CHECK(fixture.Ask(PopOp()) == StatusCode::kOk);
}

TEST_CASE("WhatWasHeldBackIsRefusedWhenAMapGivesANewerTerm") {
  Fixture fixture;
  REQUIRE(fixture.Ask(PushOp("before")) == StatusCode::kOk);
  REQUIRE(fixture.Freeze(Term(1)) == StatusCode::kOk);
  fixture.client.Call({PushOp("held")});
  fixture.client.Call({PopOp()});
  fixture.client.Settle();
  fixture.node.RaiseTerms();
  CHECK(fixture.client.WaitAnswer().answer.code == StatusCode::kWrongEpoch);
  CHECK(fixture.client.WaitAnswer().answer.code == StatusCode::kWrongEpoch);
  fixture.Thaw(Term(1));  // Too late: means nothing.
  fixture.client.Call({PopOp()});
  CHECK(Value(fixture.client.WaitAnswer()) == "before");
  CHECK(fixture.Ask(PopOp()) == StatusCode::kNotFound);
}

TEST_CASE("AHeldGroupEndsAtItsDeadlineAndIsNeverExecuted") {
  Fixture fixture;
  REQUIRE(fixture.Freeze(Term(1)) == StatusCode::kOk);
  fixture.client.time_left_us = 50'000;
  CHECK(fixture.Ask(PushOp("late")) == StatusCode::kDeadlineExceeded);
  fixture.client.time_left_us = 10'000'000;
  fixture.Thaw(Term(1));
  CHECK(fixture.Ask(PopOp()) == StatusCode::kNotFound);
}

TEST_CASE("TheTimeThatAPopIsHeldBackIsTimeThatItHasWaited") {
  Fixture fixture;
  REQUIRE(fixture.Freeze(Term(1)) == StatusCode::kOk);
  fixture.client.time_left_us = 2'000'000;
  const Deadline sent = Deadline::AfterMs(10'000);
  fixture.client.Call({PopOp(60'000)});
  fixture.client.Settle();  // It has arrived.
  const Deadline thaw = Deadline::AfterMs(1'500);
  while (!thaw.Passed()) fixture.OnCore([](Core&) {});
  fixture.Thaw(Term(1));
  CHECK(fixture.client.WaitAnswer().answer.code == StatusCode::kDeadlineExceeded);
  // It came 2 s after it was sent, and not 3.5.
  CHECK(sent.LeftNs() > 6'800'000'000);
}

TEST_CASE("WhatWasExecutedBeforeTheFreezeIsAnsweredAgainDuringItAndAfterTheMove") {
  Fixture fixture;
  REQUIRE(fixture.Ask(PushOp("a")) == StatusCode::kOk);
  const wire::FrameHeader header = fixture.client.NextHeader();
  const std::string pop = fixture.client.Request(header, Term(1), {PopOp()});
  fixture.client.Send(pop);
  CHECK(Value(fixture.client.WaitAnswer()) == "a");
  REQUIRE(fixture.Freeze(Term(1)) == StatusCode::kOk);
  fixture.client.Send(pop);
  CHECK(Value(fixture.client.WaitAnswer()) == "a");
  fixture.node.SetState(placement::PartitionState::kLost);  // Not held here any more.
  fixture.client.Send(pop);
  CHECK(Value(fixture.client.WaitAnswer()) == "a");
}

TEST_CASE("APopThatWaitsInAFrozenPartitionGoesOnWaiting") {
  Fixture fixture;
  fixture.client.Call({PopOp(60'000)});
  fixture.client.Settle();
  REQUIRE(fixture.Freeze(Term(1)) == StatusCode::kOk);
  // Over some timers of the core.
  const Deadline later = Deadline::AfterMs(50);
  while (!later.Passed()) fixture.OnCore([](Core&) {});
  CHECK_FALSE(fixture.client.HasAnswer());
  fixture.other.Call({PushOp("x")});
  fixture.other.Settle();
  fixture.Thaw(Term(1));
  CHECK(Value(fixture.client.WaitAnswer()) == "x");
}

TEST_CASE("APopThatWaitsIsSentOnWhenItsPartitionHasANewTerm") {
  Fixture fixture;
  fixture.client.Call({PopOp(60'000)});
  fixture.client.Settle();
  REQUIRE(fixture.Freeze(Term(1)) == StatusCode::kOk);
  fixture.node.RaiseTerms();
  CHECK(fixture.client.WaitAnswer().answer.code == StatusCode::kWrongEpoch);
}

TEST_CASE("AWaitThatEndsInAFrozenPartitionTakesNothing") {
  Fixture fixture;
  fixture.client.Call({PopOp(100)});
  fixture.client.Settle();
  REQUIRE(fixture.Freeze(Term(1)) == StatusCode::kOk);
  CHECK(fixture.client.WaitAnswer().answer.code == StatusCode::kDeadlineExceeded);
}

TEST_CASE("APopThatIsHeldBackTakesNothingForAClientThatHasGone") {
  Fixture fixture;
  REQUIRE(fixture.Ask(PushOp("a")) == StatusCode::kOk);
  REQUIRE(fixture.Ask(PushOp("b")) == StatusCode::kOk);
  REQUIRE(fixture.Freeze(Term(1)) == StatusCode::kOk);
  wire::FrameHeader header = fixture.client.NextHeader();
  fixture.client.Send(fixture.client.Request(header, Term(1), {PopOp()}));
  fixture.client.Settle();
  fixture.client.CutConnection();
  const SessionId session = fixture.client.attached().session;
  const Deadline noticed = Deadline::AfterMs(30'000);
  for (bool connected = true; connected;) {
    REQUIRE_FALSE(noticed.Passed());
    fixture.OnCore([&](Core& core) {
      connected = core.dispatcher().sessions().Find(session)->endpoint != nullptr;
    });
  }
  fixture.Thaw(Term(1));
  fixture.other.Call({PopOp()});
  CHECK(Value(fixture.other.WaitAnswer()) == "a");
  // It was not gone for good: it asks again, as a client does, and is served once.
  REQUIRE(fixture.client.Attach());
  header.connection = fixture.client.attached().connection;
  const std::string again = fixture.client.Request(header, Term(1), {PopOp()});
  for (int i = 0; i < 2; ++i) {
    fixture.client.Send(again);
    CHECK(Value(fixture.client.WaitAnswer()) == "b");
  }
}

TEST_CASE("OperationsOverGrpcAreToldToAskAgain") {
  Fixture fixture;
  REQUIRE(fixture.Freeze(Term(1)) == StatusCode::kOk);
  const auto outcomes = fixture.node.cores().Execute(
      CoreId(0), fixture.frozen, Term(1), {PushOp("a")}, 1024, Deadline::AfterMs(10'000));
  CHECK(outcomes.code() == StatusCode::kWrongEpoch);
}

TEST_CASE("OnlyWhatIsServedUnderTheTermIsFrozen") {
  Fixture fixture;
  CHECK(fixture.Freeze(Term(2)) == StatusCode::kWrongEpoch);
  REQUIRE(fixture.Freeze(Term(1)) == StatusCode::kOk);
  CHECK(fixture.Freeze(Term(1)) == StatusCode::kOk);
  fixture.Thaw(Term(2));
  fixture.client.Call({PushOp("a")});
  fixture.client.Settle();
  CHECK_FALSE(fixture.client.HasAnswer());
  fixture.Thaw(Term(1));
  CHECK(fixture.client.WaitAnswer().answer.code == StatusCode::kOk);
}

}  // namespace
}  // namespace tidepool::daemon
