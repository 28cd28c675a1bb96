#include "proto/base/steady_clock.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "proto/base/log.h"

namespace tidepool {
namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;
// The wall clock is read in milliseconds: a smaller difference does not count.
constexpr std::int64_t kWallResolutionNs = 2 * kNsPerMs;

void LogJump(std::int64_t by_ns) {
  const std::string by = std::to_string(std::abs(by_ns) / kNsPerMs) + " ms";
  log::Warn("the machine's clock was set " + std::string(by_ns < 0 ? "back" : "forward") + " by " +
            by +
            ". Times to live and item leases go on as before, and follow the clock by half a "
            "millisecond per second");
}

}  // namespace

SteadyClock::SteadyClock(const Clock& machine) : machine_(machine) {
  const std::uint64_t now_ns = machine_.MonotonicNs();
  offset_ns_ = MachineOffsetNs(now_ns);
  next_look_ns_ = now_ns + kLookNs;
}

std::int64_t SteadyClock::MachineOffsetNs(std::uint64_t now_ns) const {
  return static_cast<std::int64_t>(machine_.WallMs()) * kNsPerMs -
         static_cast<std::int64_t>(now_ns);
}

std::uint64_t SteadyClock::WallMs() const {
  const std::uint64_t now_ns = machine_.MonotonicNs();
  if (now_ns >= next_look_ns_.load(std::memory_order_relaxed)) Look(now_ns);
  const std::int64_t offset_ns = offset_ns_.load(std::memory_order_relaxed);
  return static_cast<std::uint64_t>((static_cast<std::int64_t>(now_ns) + offset_ns) / kNsPerMs);
}

// A single thread that finds the time due looks; other threads use the present offset.
void SteadyClock::Look(std::uint64_t now_ns) const {
  std::uint64_t due_ns = next_look_ns_.load(std::memory_order_relaxed);
  if (now_ns < due_ns || !next_look_ns_.compare_exchange_strong(due_ns, now_ns + kLookNs)) return;
  const std::uint64_t passed_ns = now_ns - due_ns + kLookNs;
  const std::int64_t offset_ns = offset_ns_.load(std::memory_order_relaxed);
  // A thread that was stopped between two reads of the clock sees a jump that there is not: the
  // second reading shows it.
  std::int64_t behind_ns = MachineOffsetNs(now_ns) - offset_ns;
  const std::int64_t before_ns = behind_ns_.load(std::memory_order_relaxed);
  if (std::abs(behind_ns - before_ns) > kJumpNs) {
    behind_ns = MachineOffsetNs(machine_.MonotonicNs()) - offset_ns;
    if (std::abs(behind_ns - before_ns) > kJumpNs) LogJump(behind_ns - before_ns);
  }
  const auto step_ns = static_cast<std::int64_t>(passed_ns / 1'000'000 * kSlewPerMillion);
  const std::int64_t by_ns =
      std::abs(behind_ns) <= kWallResolutionNs ? 0 : std::clamp(behind_ns, -step_ns, step_ns);
  behind_ns_.store(behind_ns - by_ns, std::memory_order_relaxed);
  offset_ns_.store(offset_ns + by_ns, std::memory_order_relaxed);
}

std::uint64_t SteadyClock::ToMachineMs(std::uint64_t at_ms) const {
  const std::int64_t behind_ns = behind_ns_.load(std::memory_order_relaxed);
  if (at_ms == 0 || std::abs(behind_ns) <= kJumpNs) return at_ms;
  const std::int64_t there_ms = static_cast<std::int64_t>(at_ms) + behind_ns / kNsPerMs;
  return static_cast<std::uint64_t>(std::max<std::int64_t>(there_ms, 1));
}

const SteadyClock& SteadyClock::Real() {
  static const SteadyClock clock(Clock::Real());
  return clock;
}

}  // namespace tidepool
