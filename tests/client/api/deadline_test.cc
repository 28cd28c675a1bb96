// Deadlines: the ends of operations, and answers that come too late.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>

#include "client/calls/durations.h"
#include "client/engine/engine.h"
#include "proto/base/clock.h"
#include "tests/client/fake_daemon.h"

namespace tidepool::testing {
namespace {

struct Fixture {
  FakeCluster cluster{{.nodes = 1, .cores = 1, .partitions = 4, .credit_operations = 8}};
  std::shared_ptr<internal::Engine> engine = cluster.Connect();
  BytesMap map = cluster.Open(engine);
  std::string key = cluster.KeyIn(0);

  bool PumpRequests(std::size_t count) {
    return cluster.Pump(engine, [&] { return cluster.request_count() >= count; });
  }
};

TEST_CASE_METHOD(Fixture, "A change without an answer ends unknown, a read with kDeadlineExceeded",
                 "[client][deadline]") {
  auto put = map.PutAsync(key, "1");
  auto get = map.GetAsync(key);
  REQUIRE(PumpRequests(1));
  cluster.clock().AdvanceMs(9'000);
  cluster.Settle(engine);
  CHECK_FALSE(put.Ready());
  cluster.clock().AdvanceMs(2'000);
  CHECK(put.Wait().code() == StatusCode::kUnknown);
  CHECK(get.Wait().code() == StatusCode::kDeadlineExceeded);
}

TEST_CASE_METHOD(Fixture, "What was never sent ends with kDeadlineExceeded and says why",
                 "[client][deadline]") {
  cluster.set_attach_error(Status(StatusCode::kUnavailable, "connection refused"));
  auto put = map.PutAsync(key, "1");
  cluster.Settle(engine);
  cluster.clock().AdvanceMs(11'000);
  const auto result = put.Wait();
  CHECK(result.code() == StatusCode::kDeadlineExceeded);
  CHECK(result.status().ToString().find("connection refused") != std::string::npos);
  CHECK(cluster.request_count() == 0);
}

TEST_CASE_METHOD(Fixture, "A frame says how much time is left", "[client][deadline]") {
  auto put = map.PutAsync(key, "1", {.timeout = std::chrono::milliseconds(3'000)});
  REQUIRE(PumpRequests(1));
  const auto frame = cluster.TakeRequest();
  CHECK(frame->header.time_left_us > 2'000'000);
  CHECK(frame->header.time_left_us <= 3'000'000);
}

TEST_CASE_METHOD(Fixture, "A late answer is ignored, and ack_watermark has passed its frame",
                 "[client][deadline]") {
  auto put = map.PutAsync(key, "1");
  REQUIRE(PumpRequests(1));
  const auto late = cluster.TakeRequest();
  cluster.clock().AdvanceMs(11'000);
  CHECK(put.Wait().code() == StatusCode::kUnknown);
  auto next = map.PutAsync(key, "2");
  REQUIRE(PumpRequests(1));
  const auto frame = cluster.TakeRequest();
  CHECK(frame->header.frame_id == late->header.frame_id + 1);
  CHECK(frame->header.ack_watermark == frame->header.frame_id);
  cluster.AnswerAll(*late);
  cluster.Settle(engine);
  CHECK_FALSE(next.Ready());
  cluster.AnswerAll(*frame);
  CHECK(next.Wait().ok());
}

TEST_CASE_METHOD(Fixture, "Given-up operations keep their credit until the daemon has answered",
                 "[client][deadline]") {
  std::vector<Future<Version>> puts;
  for (int i = 0; i < 8; ++i) puts.push_back(map.PutAsync(key, "1"));
  REQUIRE(PumpRequests(1));
  cluster.Settle(engine);
  cluster.clock().AdvanceMs(11'000);
  for (auto& put : puts) CHECK(put.Wait().code() == StatusCode::kUnknown);
  auto next = map.PutAsync(key, "2");
  const std::size_t sent = cluster.request_count();
  cluster.Settle(engine);
  CHECK(cluster.request_count() == sent);  // All eight credits are out.
  cluster.AnswerAll(*cluster.TakeRequest());
  REQUIRE(PumpRequests(sent));
  while (cluster.request_count() > 0) cluster.AnswerAll(*cluster.TakeRequest());
  CHECK(next.Wait().ok());
}

TEST_CASE_METHOD(Fixture,
                 "An answer to a later frame returns the credits of given-up ones before it",
                 "[client][deadline]") {
  auto lost = map.PutAsync(key, "1", {.timeout = std::chrono::milliseconds(100)});
  REQUIRE(PumpRequests(1));
  cluster.TakeRequest();
  cluster.clock().AdvanceMs(200);
  CHECK(lost.Wait().code() == StatusCode::kUnknown);
  auto next = map.PutAsync(key, "2");
  REQUIRE(PumpRequests(1));
  cluster.AnswerAll(*cluster.TakeRequest());
  REQUIRE(next.Wait().ok());
  std::vector<Future<Version>> puts;
  for (int i = 0; i < 8; ++i) puts.push_back(map.PutAsync(key, "3"));
  std::size_t operations = 0;
  cluster.Settle(engine);
  while (cluster.request_count() > 0)
    operations += cluster.TakeRequest()->request.operations.size();
  cluster.Settle(engine);
  while (cluster.request_count() > 0)
    operations += cluster.TakeRequest()->request.operations.size();
  CHECK(operations >= 4);
}

TEST_CASE_METHOD(Fixture, "A wait that gives up leaves the operation going on",
                 "[client][deadline]") {
  auto put = map.PutAsync(key, "1");
  const auto early = put.Wait(internal::CallRef::TimePoint(std::chrono::nanoseconds(1)));
  CHECK(early.code() == StatusCode::kDeadlineExceeded);
  REQUIRE(put.valid());
  REQUIRE(PumpRequests(1));
  cluster.AnswerAll(*cluster.TakeRequest());
  CHECK(put.Wait().ok());
  CHECK_FALSE(put.valid());
}

TEST_CASE_METHOD(Fixture, "A huge time to wait is no time in the past", "[client][deadline]") {
  const auto waits = [&](auto timeout) {
    auto put = map.PutAsync(key, "1");
    REQUIRE(PumpRequests(1));
    cluster.AnswerAll(*cluster.TakeRequest());
    const auto result = put.Wait(timeout);
    return result.ok() && !put.valid();
  };
  CHECK(waits(std::chrono::nanoseconds::max()));
  CHECK(waits(std::chrono::milliseconds::max()));
  CHECK(waits(std::chrono::hours::max()));
  CHECK(waits(std::chrono::duration<double>(1e300)));
  CHECK(waits(kForEver));
}

TEST_CASE_METHOD(Fixture, "A time to wait of 0 or less gives up at once", "[client][deadline]") {
  // The times come from the machine's clock, and the fixture's clock must not be behind it.
  cluster.clock().AdvanceMs(Clock::Real().MonotonicNs() / 1'000'000 + 60'000);
  auto put = map.PutAsync(key, "1");
  for (const auto timeout : {std::chrono::nanoseconds(0), std::chrono::nanoseconds(-1),
                             std::chrono::nanoseconds::min()}) {
    CHECK(put.Wait(timeout).code() == StatusCode::kDeadlineExceeded);
    REQUIRE(put.valid());
  }
}

TEST_CASE_METHOD(Fixture, "A deadline beyond a year is a year from now", "[client][deadline]") {
  constexpr std::uint64_t kYearNs = 365ull * 86'400 * 1'000'000'000;
  for (const std::chrono::milliseconds timeout :
       {std::chrono::milliseconds(std::chrono::hours(24 * 366)), kForEver, kForEver / 1'000}) {
    INFO(timeout.count());
    const std::uint64_t before_ns = engine->Now();
    const std::uint64_t deadline_ns = internal::DeadlineFor(*engine, timeout, 0);
    CHECK(deadline_ns >= before_ns + kYearNs);
    CHECK(deadline_ns <= engine->Now() + kYearNs);
    // A sum that overflows would be in the past.
    auto put = map.PutAsync(key, "1", {.timeout = timeout});
    auto wait = map.WaitForKeyAsync(key, {.timeout = timeout});
    REQUIRE(PumpRequests(1));
    cluster.Settle(engine);
    CHECK_FALSE(put.Ready());
    CHECK_FALSE(wait.Ready());
    while (cluster.request_count() > 0) cluster.TakeRequest();
  }
}

TEST_CASE("A deadline of any length is later than now and within a year") {
  ManualClock clock;
  clock.AdvanceNs(123);
  for (const std::uint64_t ms : {std::uint64_t{1}, Deadline::kMsMax, Deadline::kMsMax + 1,
                                 ~std::uint64_t{0} / 1'000'000, ~std::uint64_t{0}}) {
    INFO(ms);
    const std::uint64_t left_ms = Deadline::AfterMs(ms, clock).LeftMs(clock);
    CHECK(left_ms == std::min(ms, Deadline::kMsMax));
  }
}

TEST_CASE("Times to live travel as they are, for ever as 0, and passed ones end at once") {
  using std::chrono::milliseconds;
  CHECK(internal::ToTtlMs(milliseconds(0)) == 0);
  CHECK(internal::ToTtlMs(kForEver) == 0);
  CHECK(internal::ToTtlMs(milliseconds(-1)) == 1);
  CHECK(internal::ToTtlMs(milliseconds::min()) == 1);
  // No range is cut: the daemons decide which values they accept.
  const milliseconds longest = kForEver - milliseconds(1);
  CHECK(internal::ToTtlMs(longest) == static_cast<std::uint64_t>(longest.count()));
  CHECK(internal::FromTtlMs(static_cast<std::uint64_t>(longest.count())) == longest);
  CHECK(internal::FromTtlMs(5) == milliseconds(5));
  CHECK(internal::FromTtlMs(~std::uint64_t{0}) == kForEver);
  CHECK_FALSE(internal::FromWallMs(0).has_value());
  CHECK(internal::FromWallMs(7) == WallTime(milliseconds(7)));
}

}  // namespace
}  // namespace tidepool::testing
