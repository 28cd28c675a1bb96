// Buffered handles at the level of frames: sent frames, repeated frames, results.
#include "tidepool/buffered.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "proto/base/limits.h"
#include "tests/client/fake_daemon.h"

namespace tidepool::testing {
namespace {

using std::chrono::milliseconds;

struct Fixture {
  FakeCluster cluster{{.nodes = 2, .cores = 1, .partitions = 4}};  // 0 and 2 on node 0.
  std::shared_ptr<internal::Engine> engine = cluster.Connect();
  BytesMap map = cluster.Open(engine);

  bool PumpRequests(std::size_t count) {
    return cluster.Pump(engine, [&] { return cluster.request_count() >= count; });
  }
  // A buffer of two operations: the second operation sends it.
  BufferedBytesMap InPairs(milliseconds timeout = milliseconds(10'000)) {
    return map.Buffered({.timeout = timeout, .operations_max = 2});
  }
  // A handle with a sent pair: 1 was added to the first key of partition 0, 2 to its second.
  BufferedBytesMap SentPair() {
    auto buffered = InPairs();
    buffered.Add(cluster.KeyIn(0, 1), 1);
    buffered.Add(cluster.KeyIn(0, 2), 2);
    REQUIRE(PumpRequests(1));
    return buffered;
  }
  static wire::Answer Run(std::uint16_t first, std::uint64_t count) {
    wire::Answer answer;
    answer.scope = wire::Answer::Scope::kRun;
    answer.index = first;
    answer.has_number = true;
    answer.number = count;
    return answer;
  }
};

TEST_CASE_METHOD(Fixture, "A full buffer is one frame for its core", "[client][buffered]") {
  auto buffered = map.Buffered({.operations_max = 100});
  for (int i = 0; i < 100; ++i) {
    buffered.Add(cluster.KeyIn(i % 2 == 0 ? 0 : 2, i), i);
    CHECK(buffered.pending() == static_cast<std::uint64_t>(i) + 1);
  }
  REQUIRE(PumpRequests(1));
  cluster.Settle(engine);
  CHECK(cluster.request_count() == 1);
  const auto frame = cluster.TakeRequest();
  CHECK(frame->node == 0);
  REQUIRE(frame->request.groups.size() == 2);
  CHECK(frame->request.groups[0].quiet);
  CHECK(frame->request.groups[1].quiet);
  REQUIRE(frame->request.operations.size() == 100);
  for (int i = 0; i < 50; ++i) {
    CHECK(frame->key(static_cast<std::size_t>(i)) == cluster.KeyIn(0, 2 * i));
    CHECK(frame->operation(static_cast<std::size_t>(i)).get(wire::Argument::kOperand) ==
          static_cast<std::uint64_t>(2 * i));
  }
  cluster.Send(*frame, {Run(0, 100)});
  CHECK(buffered.Flush().ok());
  CHECK(buffered.pending() == 0);
  CHECK(buffered.failures().empty());
}

TEST_CASE_METHOD(Fixture, "What a buffer has too many of goes in several frames",
                 "[client][buffered]") {
  auto buffered = map.Buffered();
  const std::string value(1'000, 'v');
  constexpr int kCount = 200;
  for (int i = 0; i < kCount; ++i) buffered.Put(cluster.KeyIn(0, i), value);
  const std::uint64_t full = buffered.counts().buffers;
  CHECK(full >= kCount * value.size() / limits::kFrameBytesMax);
  for (std::uint64_t i = 0; i < full; ++i) {
    REQUIRE(PumpRequests(1));
    const auto frame = cluster.TakeRequest();
    CHECK(frame->bytes.size() > limits::kFrameBytesMax * 8 / 10);
    cluster.AnswerAll(*frame);
  }
  cluster.Auto();
  CHECK(buffered.Flush().ok());
  CHECK(buffered.counts().operations == kCount);
}

TEST_CASE_METHOD(Fixture, "Keys and values of all sizes arrive in their order",
                 "[client][buffered]") {
  auto buffered = map.Buffered();
  const std::string key = cluster.KeyIn(0);
  buffered.Put(key, "first");
  buffered.Put(cluster.KeyIn(0, 1), std::string(300, 'x'));
  buffered.Add(key, 7);
  buffered.Insert(key, "", {.ttl = std::chrono::milliseconds(5)});
  buffered.Put(cluster.KeyIn(2), "other partition");
  cluster.clock().AdvanceMs(200);
  buffered.Progress();  // By its age.
  REQUIRE(PumpRequests(1));
  const auto frame = cluster.TakeRequest();
  REQUIRE(frame->request.operations.size() == 5);
  CHECK(AsText(frame->operation(0).value) == "first");
  CHECK(frame->operation(1).value.size() == 300);
  CHECK(frame->operation(2).opcode == wire::Opcode::kFetchAdd);
  CHECK(frame->operation(2).get(wire::Argument::kOperand) == 7);
  CHECK(frame->operation(3).condition == wire::PutCondition::kIfAbsent);
  CHECK(frame->operation(3).get(wire::Argument::kTtlMs) == 5);
  CHECK(frame->key(3) == key);
  cluster.Send(*frame, {Run(0, 5)});
  CHECK(buffered.Flush().ok());
}

TEST_CASE_METHOD(Fixture, "A young buffer waits and an old one is sent by the next calls",
                 "[client][buffered]") {
  auto buffered = map.Buffered({.age_max = milliseconds(50)});
  const auto add = [&](int count) {
    for (int i = 0; i < count; ++i) buffered.Add(cluster.KeyIn(0, i), 1);
    cluster.Settle(engine);
  };
  add(64);
  CHECK(cluster.request_count() == 0);
  cluster.clock().AdvanceMs(60);
  add(32);
  CHECK(cluster.request_count() == 1);
  cluster.Send(*cluster.TakeRequest(), {Run(0, 96)});
  CHECK(buffered.Flush().ok());
}

TEST_CASE_METHOD(Fixture, "Failures are told by key and everything else has succeeded",
                 "[client][buffered]") {
  auto buffered = SentPair();
  wire::Answer bad;
  bad.index = 1;
  bad.code = StatusCode::kInvalidArgument;
  bad.value = AsBytes("no counter");
  cluster.Send(*cluster.TakeRequest(), {Run(0, 1), bad});
  const Status status = buffered.Flush();
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK(status.ToString().find("1 buffered operation") != std::string::npos);
  REQUIRE(buffered.failures().size() == 1);
  CHECK(buffered.failures()[0].key == cluster.KeyIn(0, 2));
  CHECK(buffered.failures()[0].status.ToString().find("no counter") != std::string::npos);
  CHECK(buffered.Flush().ok());
  CHECK(buffered.failures().empty());
  CHECK(buffered.counts().failed == 1);
}

TEST_CASE_METHOD(Fixture, "A key that is too long fails alone", "[client][buffered]") {
  auto buffered = InPairs();
  const std::string key(limits::kKeyBytesMax + 1, 'k');
  buffered.Add(key, 1);
  CHECK(buffered.Flush().code() == StatusCode::kInvalidArgument);
  REQUIRE(buffered.failures().size() == 1);
  CHECK(buffered.failures()[0].key == key);
}

TEST_CASE_METHOD(Fixture, "A refused pack goes to the new owner before what was called later",
                 "[client][buffered]") {
  auto buffered = SentPair();
  cluster.Refuse(*cluster.TakeRequest(), 0, StatusCode::kWrongEpoch, 2);
  cluster.Settle(engine);
  buffered.Add(cluster.KeyIn(0, 3), 3);
  buffered.Add(cluster.KeyIn(0, 4), 4);
  auto put = map.PutAsync(cluster.KeyIn(0, 1), "later");
  cluster.Settle(engine);
  CHECK(cluster.request_count() == 0);
  cluster.SetTerm(0, 2, 1, 0);
  cluster.PublishMap();
  cluster.clock().AdvanceMs(100);
  REQUIRE(PumpRequests(1));
  const auto again = cluster.TakeRequest();
  CHECK(again->node == 1);
  REQUIRE(again->request.groups.size() == 3);
  CHECK(again->request.groups[0].term == Term(2));
  CHECK_FALSE(again->request.groups[2].quiet);
  REQUIRE(again->request.operations.size() == 5);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(again->operation(i).get(wire::Argument::kOperand) == i + 1);
  }
  cluster.Send(*again, {Run(0, 5)});
  CHECK(buffered.Flush().ok());
  CHECK(put.Wait().ok());
  CHECK(engine->Stats().operations_requeued >= 1);
}

TEST_CASE_METHOD(Fixture, "After a cut a resumed session sends the same frame, and no failure",
                 "[client][buffered]") {
  auto buffered = SentPair();
  const auto sent = cluster.TakeRequest();
  cluster.Send(*sent, {Run(0, 1)});  // A piece; then the connection breaks.
  cluster.Settle(engine);
  cluster.Cut(0);
  cluster.clock().AdvanceMs(1'000);
  REQUIRE(PumpRequests(1));
  const auto again = cluster.TakeRequest();
  CHECK(again->header.frame_id == sent->header.frame_id);
  REQUIRE(again->request.operations.size() == 2);
  CHECK(again->request.groups[0].quiet);
  CHECK(again->key(1) == cluster.KeyIn(0, 2));
  cluster.Send(*again, {Run(0, 2)});
  CHECK(buffered.Flush().ok());
}

TEST_CASE_METHOD(Fixture, "Without its session what was sent is unknown, answered ones are not",
                 "[client][buffered]") {
  auto buffered = SentPair();
  cluster.Send(*cluster.TakeRequest(), {Run(0, 1)});
  cluster.Settle(engine);
  cluster.set_resumes(false);
  cluster.Cut(0);
  cluster.clock().AdvanceMs(1'000);
  CHECK(buffered.Flush().code() == StatusCode::kUnknown);
  REQUIRE(buffered.failures().size() == 1);
  CHECK(buffered.failures()[0].key == cluster.KeyIn(0, 2));
  CHECK(engine->Stats().operations_unknown == 2);
}

TEST_CASE_METHOD(Fixture, "What was never sent has failed at its deadline, unanswered is unknown",
                 "[client][buffered]") {
  auto buffered = InPairs(milliseconds(20));
  buffered.Add(cluster.KeyIn(0, 1), 1);
  buffered.Add(cluster.KeyIn(0, 2), 2);
  REQUIRE(PumpRequests(1));
  cluster.clock().AdvanceMs(30);
  CHECK(buffered.Flush().code() == StatusCode::kUnknown);
  CHECK(buffered.failures().size() == 2);
  // The daemon's answer comes late and changes nothing.
  cluster.Send(*cluster.TakeRequest(), {Run(0, 2)});
  cluster.Settle(engine);
  cluster.set_attach_error(Status(StatusCode::kUnavailable, "refused"));
  cluster.Cut(0);
  cluster.Settle(engine);
  buffered.Add(cluster.KeyIn(0, 3), 3);
  CHECK(buffered.Flush().code() == StatusCode::kDeadlineExceeded);
  REQUIRE(buffered.failures().size() == 1);
  CHECK(buffered.failures()[0].status.ToString().find("not sent") != std::string::npos);
}

TEST_CASE_METHOD(Fixture, "A given-up pack leaves its place in a frame that is sent again",
                 "[client][buffered]") {
  cluster.set_attach_error(Status(StatusCode::kUnavailable, "refused"));
  auto brief = InPairs(milliseconds(3'000));
  brief.Add(cluster.KeyIn(0, 1), 1);
  brief.Add(cluster.KeyIn(0, 2), 2);
  auto patient = InPairs(milliseconds(60'000));
  patient.Add(cluster.KeyIn(0, 3), 3);
  patient.Add(cluster.KeyIn(0, 4), 4);
  cluster.Settle(engine);
  cluster.set_attach_error({});
  cluster.clock().AdvanceMs(1'000);
  REQUIRE(PumpRequests(1));
  REQUIRE(cluster.TakeRequest()->request.groups.size() == 2);
  cluster.clock().AdvanceMs(3'000);
  CHECK(brief.Flush().code() == StatusCode::kUnknown);
  cluster.Cut(0);
  cluster.clock().AdvanceMs(1'000);
  REQUIRE(PumpRequests(1));
  const auto again = cluster.TakeRequest();
  REQUIRE(again->request.groups.size() == 2);
  REQUIRE(again->request.operations.size() == 4);
  CHECK_FALSE(wire::InfoOf(again->operation(0).opcode).mutates);
  CHECK(again->key(2) == cluster.KeyIn(0, 3));
  cluster.Send(*again, {Run(0, 4)});
  CHECK(patient.Flush().ok());
}

TEST_CASE_METHOD(Fixture, "A full buffer waits while too many are under way",
                 "[client][buffered]") {
  auto buffered =
      map.Buffered({.timeout = milliseconds(5), .operations_max = 2, .buffers_in_flight = 3});
  for (int i = 0; i < 6; ++i) buffered.Add(cluster.KeyIn(0, i), 1);
  CHECK(buffered.counts().buffers == 3);
  CHECK(buffered.counts().failed == 0);
  for (int i = 6; i < 8; ++i) buffered.Add(cluster.KeyIn(0, i), 1);
  CHECK(buffered.counts().failed == 2);  // It has waited for the first call, until its deadline.
  cluster.Auto();
  (void)buffered.Flush();
}

TEST_CASE("A pack needs one operation of credit", "[client][buffered]") {
  FakeCluster cluster({.partitions = 1, .credit_operations = 8, .credit_bytes = 128 * 1024});
  const auto engine = cluster.Connect();
  auto buffered = cluster.Open(engine).Buffered();
  for (int i = 0; i < 3'000; ++i) buffered.Add(cluster.KeyIn(0, i), 1);
  REQUIRE(cluster.Pump(engine, [&] { return cluster.request_count() >= 2; }));
  std::size_t reply_bytes = 0;
  while (cluster.request_count() > 0) {
    const auto frame = cluster.TakeRequest();
    CHECK(frame->request.operations.size() == 1'024);
    reply_bytes += frame->header.reply_bytes_max;
    cluster.Send(*frame, {Fixture::Run(0, 1'024)});
  }
  CHECK(reply_bytes <= 128 * 1024);
  cluster.Auto();  // Which refuses adds: of the last buffer that is all that matters here.
  CHECK(buffered.Flush().code() == StatusCode::kUnimplemented);
  CHECK(buffered.pending() == 0);
}

TEST_CASE_METHOD(Fixture, "A handle that is destroyed flushes", "[client][buffered]") {
  {
    auto buffered = map.Buffered({.timeout = milliseconds(5)});
    buffered.Put(cluster.KeyIn(0), "value");
    cluster.Auto();
  }
  CHECK(cluster.auto_answered() == 1);
}

TEST_CASE_METHOD(Fixture, "A large value goes behind what was buffered for its core",
                 "[client][buffered]") {
  auto buffered = map.Buffered();
  const std::string key = cluster.KeyIn(0);
  buffered.Put(key, "small");
  buffered.Put(key, std::string(limits::kUnstreamedValueBytesMax + 1, 'v'));
  buffered.Put(cluster.KeyIn(0, 1), "behind");
  REQUIRE(PumpRequests(1));
  const auto first = cluster.TakeRequest();
  REQUIRE(first->request.operations.size() == 1);
  CHECK(AsText(first->operation(0).value) == "small");
  cluster.AnswerAll(*first);
  REQUIRE(cluster.Pump(engine, [&] { return cluster.stream_count() > 0; }));
  cluster.SendAck(*cluster.TakeStream(), limits::kUnstreamedValueBytesMax + 1);
  REQUIRE(PumpRequests(1));
  const auto large = cluster.TakeRequest();
  REQUIRE(large->request.operations.size() == 1);
  CHECK(large->operation(0).has(wire::Argument::kUpload));
  cluster.AnswerAll(*large);
  cluster.Auto();
  CHECK(buffered.Flush().ok());
}

}  // namespace
}  // namespace tidepool::testing
