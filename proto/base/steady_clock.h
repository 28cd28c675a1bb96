// Wall time that does not jump: the time of expiry and of item leases.
//
//   Clock::Real -> [steady_clock] -> a core's store; its offset -> direct readers of other
//   processes
#pragma once

#include <atomic>
#include <cstdint>

#include "proto/base/clock.h"

namespace tidepool {

// Thread-safe. WallMs is the monotonic clock plus an offset. The offset is the machine's wall time
// at the beginning. After a change of the machine's clock, the offset follows slowly: by
// kSlewPerMillion of the time that passes. A time to live of a minute then ends within 30 ms of a
// minute. A jump ends nothing early and delays nothing. A jump is logged once.
//
// WallMs costs a read of the clock, and a second read ten times per second.
class SteadyClock final : public Clock {
 public:
  static constexpr std::uint64_t kSlewPerMillion = 500;
  static constexpr std::uint64_t kLookNs = 100'000'000;  // Between two looks at the wall clock.
  // A difference up to this is no jump. Clocks that are disciplined stay far below it.
  static constexpr std::int64_t kJumpNs = 1'000'000'000;

  // `machine` must outlive it.
  explicit SteadyClock(const Clock& machine);

  std::uint64_t MonotonicNs() const override { return machine_.MonotonicNs(); }
  std::uint64_t WallMs() const override;
  // Returns the difference of WallMs and MonotonicNs.
  std::int64_t OffsetNs() const { return offset_ns_.load(std::memory_order_relaxed); }

  // Converts `at_ms` of this clock to the machine's clock, for times that leave the process and are
  // compared with a clock there. Differs after a jump only. 0 (never) stays 0.
  std::uint64_t ToMachineMs(std::uint64_t at_ms) const;

  // Returns the clock over Clock::Real, for all cores of the process. Lives for ever.
  static const SteadyClock& Real();

 private:
  void Look(std::uint64_t now_ns) const;
  std::int64_t MachineOffsetNs(std::uint64_t now_ns) const;

  const Clock& machine_;
  mutable std::atomic<std::int64_t> offset_ns_;     // Wall time minus monotonic time.
  mutable std::atomic<std::int64_t> behind_ns_{0};  // Error of the offset at the last look.
  mutable std::atomic<std::uint64_t> next_look_ns_;
};

}  // namespace tidepool
