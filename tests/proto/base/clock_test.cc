#include "proto/base/clock.h"

#include <catch2/catch.hpp>

namespace tidepool {
namespace {

TEST_CASE("ADeadlinePassesWhenItsTimeHasCome") {
  ManualClock clock;
  const Deadline deadline = Deadline::AfterMs(10, clock);
  CHECK_FALSE(deadline.Passed(clock));
  CHECK(deadline.LeftMs(clock) == 10);
  clock.AdvanceNs(9'999'999);
  CHECK(deadline.LeftNs(clock) == 1);
  CHECK(deadline.LeftMs(clock) == 1);
  clock.AdvanceNs(1);
  CHECK(deadline.Passed(clock));
  CHECK(deadline.LeftNs(clock) == 0);
}

TEST_CASE("TheRealClockNeverGoesBack") {
  const Clock& clock = Clock::Real();
  std::uint64_t last_ns = clock.MonotonicNs();
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t now_ns = clock.MonotonicNs();
    REQUIRE(now_ns >= last_ns);
    last_ns = now_ns;
  }
}

}  // namespace
}  // namespace tidepool
