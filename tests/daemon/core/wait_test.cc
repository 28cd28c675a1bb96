// Operations that wait in the daemon, shown by the operation of all record kinds: wait for a key.
#include <catch2/catch.hpp>

#include "daemon/core/core.h"
#include "daemon/core/dispatcher.h"
#include "proto/base/limits.h"
#include "tests/daemon/raw_client.h"

namespace tidepool::daemon {
namespace {

constexpr std::uint64_t kLongMs = 60'000;  // For a wait that the test ends earlier.

wire::Operation WaitOp(std::string_view key, std::uint64_t wait_ms = kLongMs) {
  wire::Operation operation = GetOp(key);
  operation.opcode = wire::Opcode::kWait;
  operation.set(wire::Argument::kWaitMs, wait_ms);
  return operation;
}

wire::Operation WaitForOther(std::string_view key, Lsn known, std::uint64_t wait_ms = kLongMs) {
  wire::Operation operation = WaitOp(key, wait_ms);
  operation.set(wire::Argument::kVersion, known.value());
  return operation;
}

wire::Operation DeleteOp(std::string_view key) {
  wire::Operation operation = GetOp(key);
  operation.opcode = wire::Opcode::kDelete;
  return operation;
}

Lsn PutAndGetVersion(RawClient& client, std::string_view key, std::string_view value) {
  client.Call({PutOp(key, value)});
  const OwnedAnswer answer = client.WaitAnswer();
  REQUIRE(answer.answer.code == StatusCode::kOk);
  client.Call({GetOp(key)});
  return client.WaitAnswer().answer.version;
}

// Two sessions on a node: a waiting session, and a changing session.
struct Pair {
  explicit Pair(std::uint32_t partitions = 1) : node(partitions), waiter(node), writer(node) {
    waiter.Attach();
    writer.Attach();
  }
  void Write(const wire::Operation& operation) {
    writer.Call({operation});
    REQUIRE(writer.WaitAnswer().answer.code == StatusCode::kOk);
  }
  TestNode node;
  RawClient waiter;
  RawClient writer;
};

TEST_CASE("AKeyThatIsThereEndsTheWaitAtOnce") {
  Pair pair;
  pair.Write(PutOp("k", "v"));
  pair.waiter.Call({WaitOp("k")});
  CHECK(pair.waiter.WaitAnswer().value == "v");
}

TEST_CASE("AWaitEndsWithThePutOfAnotherSession") {
  Pair pair(4);
  pair.waiter.Call({WaitOp("k")});
  pair.waiter.Settle();
  CHECK_FALSE(pair.waiter.HasAnswer());
  pair.Write(PutOp("k", "v"));
  const OwnedAnswer answer = pair.waiter.WaitAnswer();
  CHECK(answer.answer.code == StatusCode::kOk);
  CHECK(answer.value == "v");
}

// A core without work once slept 100 ms in spite of waiters. The best of some rounds shows if it is
// quick, whatever else the machine does.
TEST_CASE("TheSleepOfAnIdleCoreEndsWithTheNextDeadline") {
  Pair pair;
  constexpr int kWaits = 10;
  constexpr std::uint64_t kWaitMs = 10;
  std::uint64_t least_ms = UINT64_MAX;
  for (int round = 0; round < 20 && least_ms > kWaits * 50; ++round) {
    const std::uint64_t begin_ns = Clock::Real().MonotonicNs();
    for (int i = 0; i < kWaits; ++i) {
      pair.waiter.Call({WaitOp("k", kWaitMs)});
      CHECK(pair.waiter.WaitAnswer().answer.code == StatusCode::kDeadlineExceeded);
    }
    least_ms = std::min(least_ms, (Clock::Real().MonotonicNs() - begin_ns) / 1'000'000);
  }
  CHECK(least_ms >= kWaits * kWaitMs);
  CHECK(least_ms <= kWaits * 50);
}

TEST_CASE("OfOneFrameWhatNeedNotWaitIsAnsweredFirst") {
  Pair pair;
  pair.Write(PutOp("there", "1"));
  pair.waiter.Call({WaitOp("later"), GetOp("there")});
  OwnedAnswer answer = pair.waiter.WaitAnswer();
  CHECK(answer.answer.index == 1);
  pair.Write(PutOp("later", "2"));
  answer = pair.waiter.WaitAnswer();
  CHECK(answer.answer.index == 0);
  CHECK(answer.value == "2");
}

TEST_CASE("AnotherKeyEndsNoWait") {
  Pair pair;
  pair.waiter.Call({WaitOp("k")});
  pair.Write(PutOp("other", "v"));
  pair.waiter.Settle();
  CHECK_FALSE(pair.waiter.HasAnswer());
}

TEST_CASE("AWaitForAChangeEndsWithAnotherVersion") {
  Pair pair;
  const Lsn version = PutAndGetVersion(pair.writer, "k", "old");
  pair.waiter.Call({WaitForOther("k", version)});
  pair.waiter.Settle();
  CHECK_FALSE(pair.waiter.HasAnswer());
  pair.Write(PutOp("k", "new"));
  const OwnedAnswer answer = pair.waiter.WaitAnswer();
  CHECK(answer.value == "new");
  CHECK(answer.answer.version > version);
}

TEST_CASE("AWaitForAChangeEndsWithTheKey") {
  Pair pair;
  const Lsn version = PutAndGetVersion(pair.writer, "k", "old");
  pair.waiter.Call({WaitForOther("k", version)});
  pair.waiter.Settle();
  pair.Write(DeleteOp("k"));
  CHECK(pair.waiter.WaitAnswer().answer.code == StatusCode::kNotFound);
}

TEST_CASE("AWaitForAChangeEndsWithTheKeysTimeToLive") {
  Pair pair;
  Lsn version;
  // On a busy machine it may be gone before its version is known.
  for (std::uint64_t ttl_ms = 50; version == Lsn() && ttl_ms < 10'000; ttl_ms *= 2) {
    wire::Operation put = PutOp("k", "short-lived");
    put.set(wire::Argument::kTtlMs, ttl_ms);
    pair.Write(put);
    pair.writer.Call({GetOp("k")});
    version = pair.writer.WaitAnswer().answer.version;
  }
  REQUIRE(version > Lsn());
  pair.waiter.Call({WaitForOther("k", version)});
  CHECK(pair.waiter.WaitAnswer().answer.code == StatusCode::kNotFound);
}

TEST_CASE("OneChangeEndsAllWaitsForIt") {
  Pair pair;
  pair.waiter.Call({WaitOp("k"), WaitForOther("k", Lsn()), WaitOp("k")});
  pair.waiter.Settle();
  CHECK_FALSE(pair.waiter.HasAnswer());
  pair.Write(PutOp("k", "v"));
  for (int i = 0; i < 3; ++i) CHECK(pair.waiter.WaitAnswer().value == "v");
}

TEST_CASE("AWaitEndsAtItsTime") {
  Pair pair;
  pair.waiter.Call({WaitOp("k", 30)});
  const OwnedAnswer answer = pair.waiter.WaitAnswer();
  CHECK(answer.answer.code == StatusCode::kDeadlineExceeded);
  CHECK(answer.value.find("did not come") != std::string::npos);
}

TEST_CASE("AWaitEndsNoLaterThanItsFrame") {
  Pair pair;
  pair.waiter.time_left_us = 30'000;
  pair.waiter.Call({WaitOp("k")});
  CHECK(pair.waiter.WaitAnswer().answer.code == StatusCode::kDeadlineExceeded);
}

TEST_CASE("AWaitOfNoTimeIsAQuestion") {
  Pair pair;
  pair.waiter.Call({WaitOp("k", 0)});
  CHECK(pair.waiter.WaitAnswer().answer.code == StatusCode::kDeadlineExceeded);
}

TEST_CASE("AWaitSentAgainOverANewConnectionIsAnsweredOnce") {
  Pair pair;
  wire::FrameHeader header = pair.waiter.NextHeader();
  pair.waiter.Send(pair.waiter.Request(header, pair.node.term(), {WaitOp("k"), AddOp("n", 1)}));
  CHECK(pair.waiter.WaitAnswer().answer.index == 1);
  pair.waiter.CutConnection();
  REQUIRE(pair.waiter.Attach());
  header.connection = pair.waiter.attached().connection;
  pair.waiter.Send(pair.waiter.Request(header, pair.node.term(), {WaitOp("k"), AddOp("n", 1)}));
  CHECK(pair.waiter.WaitAnswer().answer.number == 0);  // The cached reply of the add.
  pair.Write(PutOp("k", "v"));
  CHECK(pair.waiter.WaitAnswer().value == "v");
  pair.waiter.Settle();
  CHECK_FALSE(pair.waiter.HasAnswer());
}

// Nothing of it is kept, as it changes nothing; only the wait itself says that it was there.
TEST_CASE("AFrameOfNothingButWaitsSentAgainIsAnsweredOnce") {
  Pair pair;
  wire::FrameHeader header = pair.waiter.NextHeader();
  const std::vector<wire::Operation> waits = {WaitOp("k"), WaitOp("l")};
  pair.waiter.Send(pair.waiter.Request(header, pair.node.term(), waits));
  pair.waiter.Settle();
  pair.waiter.CutConnection();
  REQUIRE(pair.waiter.Attach());
  header.connection = pair.waiter.attached().connection;
  pair.waiter.Send(pair.waiter.Request(header, pair.node.term(), waits));
  pair.waiter.Settle();
  for (const char* key : {"k", "l"}) {
    pair.Write(PutOp(key, "v"));
    CHECK(pair.waiter.WaitAnswer().value == "v");
  }
  pair.waiter.Settle();
  CHECK_FALSE(pair.waiter.HasAnswer());
}

// The timer would serve it too, but only after requests that the daemon already has.
TEST_CASE("AChangeIsToldBeforeAnythingElseHappens") {
  Pair pair;
  const std::uint64_t wait = pair.waiter.Call({WaitOp("k")});
  pair.waiter.Settle();
  const std::uint64_t put = pair.waiter.Call({PutOp("k", "v")});
  const std::uint64_t erase = pair.waiter.Call({DeleteOp("k")});
  CHECK(pair.waiter.WaitAnswer().frame_id == put);
  const OwnedAnswer told = pair.waiter.WaitAnswer();
  CHECK(told.frame_id == wait);
  CHECK(told.value == "v");
  CHECK(pair.waiter.WaitAnswer().frame_id == erase);
}

TEST_CASE("AWaitThatTheClientGaveUpIsForgotten") {
  Pair pair;
  const std::uint64_t frame = pair.waiter.Call({WaitOp("k")});
  pair.waiter.ack_watermark = frame + 1;
  pair.waiter.Settle();
  pair.Write(PutOp("k", "v"));
  pair.waiter.Settle();
  CHECK_FALSE(pair.waiter.HasAnswer());
}

TEST_CASE("AWaitEndsWithItsPartition") {
  Pair pair;
  pair.waiter.Call({WaitOp("k")});
  pair.waiter.Settle();
  pair.node.SetState(placement::PartitionState::kLost);
  CHECK(pair.waiter.WaitAnswer().answer.code == StatusCode::kDataLoss);
}

TEST_CASE("AWaitUnderAnOldTermIsRefusedSoThatTheClientAsksAgain") {
  Pair pair;
  pair.waiter.Call({WaitOp("k")});
  pair.waiter.Settle();
  pair.node.RaiseTerms();
  CHECK(pair.waiter.WaitAnswer().answer.code == StatusCode::kWrongEpoch);
}

TEST_CASE("BeyondTheQuotaOfASessionAWaitIsAnsweredAtOnce") {
  Pair pair;
  const std::vector<wire::Operation> waits(8, WaitOp("k"));
  for (std::uint32_t i = 0; i < limits::kEventWaitersPerSessionMax; i += 8) pair.waiter.Call(waits);
  pair.waiter.Settle();
  CHECK_FALSE(pair.waiter.HasAnswer());
  pair.waiter.Call({WaitOp("k")});
  CHECK(pair.waiter.WaitAnswer().answer.code == StatusCode::kDeadlineExceeded);
  pair.Write(PutOp("k", "v"));
  for (std::uint32_t i = 0; i < limits::kEventWaitersPerSessionMax; ++i) {
    REQUIRE(pair.waiter.WaitAnswer().value == "v");
  }
  pair.waiter.Call({WaitOp("later")});  // The quota is free again.
  pair.waiter.Settle();
  CHECK_FALSE(pair.waiter.HasAnswer());
}

TEST_CASE("AWaitOfAClientThatIsGoneIsNotAnsweredIntoTheVoid") {
  Pair pair;
  pair.waiter.Call({WaitOp("k")});
  pair.waiter.Settle();
  pair.waiter.CutConnection();
  const SessionId id = pair.waiter.attached().session;
  const Deadline deadline = Deadline::AfterMs(60'000);
  for (bool connected = true; connected;) {
    REQUIRE_FALSE(deadline.Passed());
    const Status ran = pair.node.cores().Run(
        CoreId(0),
        [&connected, id](Core& core) {
          const Session* session = core.dispatcher().sessions().Find(id);
          connected = session != nullptr && session->endpoint != nullptr;
        },
        deadline);
    REQUIRE(ran.ok());
  }
  pair.Write(PutOp("k", "v"));
  REQUIRE(pair.waiter.Attach());  // And sends nothing.
  CHECK(pair.waiter.WaitAnswer().value == "v");
}

}  // namespace
}  // namespace tidepool::daemon
