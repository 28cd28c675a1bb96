// Time. Code that acts on time takes a Clock, so that a test can move it.
#pragma once

#include <atomic>
#include <cstdint>

namespace tidepool {

// Thread-safe. Two times: monotonic for deadlines and leases, wall for expiry that outlives a
// process.
class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds since an arbitrary point; the same for all processes of a machine.
  virtual std::uint64_t MonotonicNs() const = 0;
  // Milliseconds since 1970-01-01 UTC. May jump when the machine's clock is set.
  virtual std::uint64_t WallMs() const = 0;

  // The machine's clock. Lives for ever.
  static const Clock& Real();
};

// A clock that a test moves by hand.
class ManualClock : public Clock {
 public:
  std::uint64_t MonotonicNs() const override { return now_ns_.load(); }
  std::uint64_t WallMs() const override { return wall_start_ms_ + now_ns_.load() / 1'000'000; }
  void AdvanceNs(std::uint64_t by_ns) { now_ns_ += by_ns; }

 private:
  std::atomic<std::uint64_t> now_ns_{1'000'000'000};
  std::uint64_t wall_start_ms_ = 1'700'000'000'000;
};

// When a call gives up. Made once where the call enters and passed down, so that retries do not add
// up.
class Deadline {
 public:
  // A year. Longer ones mean this one: a sum with the clock does not overflow.
  static constexpr std::uint64_t kMsMax = 365ull * 86'400'000;

  static Deadline AfterMs(std::uint64_t ms, const Clock& clock = Clock::Real()) {
    return Deadline(clock.MonotonicNs() + (ms < kMsMax ? ms : kMsMax) * 1'000'000);
  }
  explicit Deadline(std::uint64_t at_ns) : at_ns_(at_ns) {}

  std::uint64_t at_ns() const { return at_ns_; }
  bool Passed(const Clock& clock = Clock::Real()) const { return clock.MonotonicNs() >= at_ns_; }
  // 0 when it has passed.
  std::uint64_t LeftNs(const Clock& clock = Clock::Real()) const {
    const std::uint64_t now_ns = clock.MonotonicNs();
    return now_ns >= at_ns_ ? 0 : at_ns_ - now_ns;
  }
  // Rounded up, so that waiting for it does not spin in the last millisecond.
  std::uint64_t LeftMs(const Clock& clock = Clock::Real()) const {
    return (LeftNs(clock) + 999'999) / 1'000'000;
  }

 private:
  std::uint64_t at_ns_;
};

}  // namespace tidepool
