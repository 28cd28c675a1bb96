// The machine's clock is set while times to live run.
#include "proto/base/steady_clock.h"

#include <catch2/catch.hpp>
#include <cstdlib>

namespace tidepool {
namespace {

// A machine with a wall clock that is set.
class Machine final : public Clock {
 public:
  std::uint64_t MonotonicNs() const override { return now_ns; }
  std::uint64_t WallMs() const override {
    return static_cast<std::uint64_t>(1'700'000'000'000 + set_ms) + now_ns / 1'000'000;
  }
  std::uint64_t now_ns = 5'000'000'000;
  std::int64_t set_ms = 0;
};

// Time passes as a busy core sees it: the clock is read many times per second.
void Pass(const SteadyClock& clock, Machine* machine, std::uint64_t ms) {
  for (std::uint64_t passed = 0; passed < ms; passed += 50) {
    machine->now_ns += 50'000'000;
    const std::uint64_t before = clock.WallMs();
    REQUIRE(clock.WallMs() == before);
  }
}

TEST_CASE("WithoutAJumpItIsTheMachinesClock") {
  Machine machine;
  const SteadyClock clock(machine);
  Pass(clock, &machine, 10'000);
  CHECK(clock.WallMs() == machine.WallMs());
  CHECK(clock.ToMachineMs(clock.WallMs()) == machine.WallMs());
}

TEST_CASE("AJumpChangesATimeToLiveByHalfAMillisecondPerSecondAtMost") {
  for (const std::int64_t set_ms : {-600'000, 600'000, -86'400'000, 86'400'000}) {
    Machine machine;
    const SteadyClock clock(machine);
    const std::uint64_t begin_ms = clock.WallMs();
    machine.set_ms = set_ms;
    Pass(clock, &machine, 60'000);
    const auto passed_ms = static_cast<std::int64_t>(clock.WallMs() - begin_ms);
    INFO(set_ms);
    CHECK(passed_ms >= 60'000 - 31);
    CHECK(passed_ms <= 60'000 + 31);
    CHECK(passed_ms != 60'000);  // It follows.
  }
}

TEST_CASE("AfterAJumpItReachesTheMachinesClockAgain") {
  for (const std::int64_t set_ms : {-1'500, 1'500}) {
    Machine machine;
    const SteadyClock clock(machine);
    machine.set_ms = set_ms;
    Pass(clock, &machine, 1'500 * 2'000 + 10'000);
    const auto apart_ms =
        static_cast<std::int64_t>(clock.WallMs()) - static_cast<std::int64_t>(machine.WallMs());
    CHECK(std::abs(apart_ms) <= 3);
  }
}

TEST_CASE("WhatLeavesTheProcessIsTheMachinesTime") {
  Machine machine;
  const SteadyClock clock(machine);
  machine.set_ms = -600'000;
  Pass(clock, &machine, 1'000);
  const std::uint64_t expiry_ms = clock.WallMs() + 2'000;
  const std::uint64_t there_ms = clock.ToMachineMs(expiry_ms);
  CHECK(there_ms >= machine.WallMs() + 1'998);
  CHECK(there_ms <= machine.WallMs() + 2'002);
  CHECK(clock.ToMachineMs(0) == 0);  // Never stays never.
}

TEST_CASE("ALongPauseOfTheProcessIsNoJump") {
  Machine machine;
  const SteadyClock clock(machine);
  machine.now_ns += 3'600'000'000'000;
  CHECK(clock.WallMs() == machine.WallMs());
}

}  // namespace
}  // namespace tidepool
