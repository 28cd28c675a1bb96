// The sessions that end when a core keeps more answers than permitted.
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "daemon/core/sessions.h"
#include "proto/base/limits.h"
#include "proto/wire/process_group_ops.h"
#include "tests/daemon/raw_client.h"

namespace tidepool::daemon {
namespace {

using wire::Opcode;

constexpr std::uint64_t kMemoryBytes = 256ull << 20;
constexpr std::uint64_t kLongMs = 60'000;  // For a wait that the test ends earlier.
constexpr int kTakes = 160;                // Items of 32,000 bytes each: 5.1 MB.
constexpr int kIdle = 12;
static_assert(kTakes * 32'000ull < limits::kCachedReplyBytesMax);
static_assert(kIdle * kTakes * 32'000ull > ReplyCacheBytesMax(kMemoryBytes) * 3 / 2);

wire::Operation On(Opcode opcode, std::string_view key, std::string_view value = {}) {
  wire::Operation operation = PutOp(key, value);
  operation.opcode = opcode;
  return operation;
}

wire::Operation Waiting(wire::Operation operation) {
  operation.set(wire::Argument::kWaitMs, kLongMs);
  return operation;
}

struct Fixture {
  explicit Fixture(std::uint64_t memory_bytes = kMemoryBytes) : node(1, memory_bytes) {
    producer.Attach();
  }

  // Fills the reply cache of `client` with the answers of this number of takes.
  void Fill(RawClient& client, int takes, const std::string& value) {
    for (int i = 0; i < takes; ++i) {
      producer.ack_watermark = producer.Call({PutOp("k", value)});
      REQUIRE(producer.WaitAnswer().answer.code == StatusCode::kOk);
      client.Call({On(Opcode::kTake, "k")});
      REQUIRE(client.WaitAnswer().answer.code == StatusCode::kOk);
    }
  }
  // Clients that hold much and are not heard of any more, until some of them are gone.
  void FillByIdleClients() {
    for (int i = 0; i < kIdle; ++i) {
      idle.push_back(std::make_unique<RawClient>(node));
      idle.back()->Attach();
      Fill(*idle.back(), kTakes, std::string(32'000, 'v'));
    }
  }
  // Records until there is no memory for more.
  void FillMemory() {
    const std::string value(48'000, 'v');
    StatusCode code = StatusCode::kOk;
    for (int i = 0; code == StatusCode::kOk; ++i) {
      producer.ack_watermark = producer.Call({PutOp("record" + std::to_string(i), value)});
      code = producer.WaitAnswer().answer.code;
    }
    REQUIRE(code == StatusCode::kResourceExhausted);
  }
  int CountResumed() {
    int resumed = 0;
    for (const auto& client : idle) resumed += client->Attach() ? 1 : 0;
    return resumed;
  }

  TestNode node;
  RawClient producer{node};
  std::vector<std::unique_ptr<RawClient>> idle;
};

TEST_CASE("WhoWaitsAndWhoHoldsLittleKeepTheirSessionsThoughSilentLongest") {
  Fixture f;
  RawClient waiter(f.node);
  waiter.time_left_us = kLongMs * 1'000;
  waiter.Attach();
  f.Fill(waiter, kTakes, std::string(32'000, 'v'));
  waiter.Call({Waiting(On(Opcode::kWait, "late"))});
  waiter.Settle();
  RawClient small(f.node);
  small.Attach();
  f.Fill(small, 1, "small");
  f.FillByIdleClients();
  waiter.Settle();
  CHECK_FALSE(waiter.lost());
  CHECK(small.Attach());
  f.producer.Call({PutOp("late", "it has come")});
  CHECK(f.producer.WaitAnswer().answer.code == StatusCode::kOk);
  CHECK(waiter.WaitAnswer().value == "it has come");
  const int resumed = f.CountResumed();
  CHECK(resumed > 0);
  CHECK(resumed < kIdle);
}

TEST_CASE("AGroupLearnsThatAMemberWasLostWhoseSessionHeldTooMuch") {
  Fixture f;
  RawClient member(f.node);
  RawClient other(f.node);
  other.time_left_us = kLongMs * 1'000;
  member.Attach();
  other.Attach();
  std::uint64_t instance = 0;
  for (RawClient* client : {&member, &other}) {
    std::string join(wire::kJoinHeaderBytes, '\0');
    wire::StoreJoinHeader({client == &member ? 1u : 2u, 2, client == &member ? 0 : 1, {}},
                          reinterpret_cast<std::byte*>(join.data()));
    client->Call({Waiting(On(Opcode::kGroupJoin, "group", join))});
    client->Settle();
  }
  for (RawClient* client : {&member, &other}) {
    const OwnedAnswer joined = client->WaitAnswer();
    REQUIRE(joined.answer.code == StatusCode::kOk);
    const auto reply = wire::LoadJoinReply(AsBytes(joined.value));
    REQUIRE(reply.ok());
    instance = reply->instance;
  }
  f.Fill(member, kTakes, std::string(32'000, 'v'));
  wire::MeetRequest meet;
  meet.instance = instance;
  meet.step = 1;
  meet.rank = 1;
  std::string barrier(wire::kMeetHeaderBytes, '\0');
  wire::StoreMeetHeader(meet, reinterpret_cast<std::byte*>(barrier.data()));
  other.Call({Waiting(On(Opcode::kGroupMeet, "group", barrier))});
  other.Settle();
  f.FillByIdleClients();
  // Its connection is cut with its session: it is lost unless it comes back soon.
  const OwnedAnswer broken = other.WaitAnswer();
  CHECK(broken.answer.code == StatusCode::kAborted);
  CHECK(broken.value.find("lost its connection") != std::string::npos);
}

// The heap of cached replies is set aside from --memory. If records use all of it, no heap is left.
TEST_CASE("WhereRecordsFillTheMemoryFewerAnswersAreKept") {
  constexpr std::uint64_t kLargeBytes = 1ull << 30;
  constexpr std::uint64_t kAllBytes = 56ull << 20;
  static_assert(kAllBytes < ReplyCacheBytesMax(kLargeBytes));
  static_assert(kAllBytes > HeapCover::FreeBytes(kLargeBytes, 1) * 3 / 2);
  // Additions: their answers have no values, and the store needs no memory for them.
  constexpr std::size_t kAdds = 256;
  constexpr std::uint64_t kFrames = kAllBytes / kIdle / kAdds / sizeof(CachedReply::Entry);
  const bool full = GENERATE(false, true);
  Fixture f(kLargeBytes);
  f.producer.ack_watermark = f.producer.Call({AddOp("counter", 1)});
  REQUIRE(f.producer.WaitAnswer().answer.code == StatusCode::kOk);
  if (full) f.FillMemory();
  const std::vector<wire::Operation> adds(kAdds, AddOp("counter", 1));
  for (int i = 0; i < kIdle; ++i) {
    f.idle.push_back(std::make_unique<RawClient>(f.node));
    RawClient& client = *f.idle.back();
    client.Attach();
    for (std::uint64_t frame = 0; frame < kFrames; ++frame) {
      client.Call(adds);
      for (std::size_t each = 0; each < kAdds; ++each) {
        if (client.WaitAnswer().answer.code != StatusCode::kOk) FAIL("an addition failed");
      }
    }
  }
  const int resumed = f.CountResumed();
  CHECK(resumed > 0);
  CHECK((resumed == kIdle) == !full);
}

}  // namespace
}  // namespace tidepool::daemon
