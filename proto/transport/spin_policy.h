// When to spin and when to block: success-driven. Spins up to 50 us while spinning pays, and stops
// spinning for a while otherwise. Measured against always spinning, always blocking and a fixed
// spin: best or near best everywhere. It alone never collapses with more runnable threads than CPUs
// (busy polling then loses by 100 to 1000 times in the median).
#pragma once

#include <cstdint>

#include "proto/base/clock.h"

namespace tidepool::transport {

// Each waiting thread has its own. Call Found() after a round that found work, and ShouldBlock()
// after an idle round; block if it returns true.
class SpinPolicy {
 public:
  enum class Mode : std::uint8_t { kAuto, kPoll, kBlock };
  explicit SpinPolicy(Mode mode = Mode::kAuto, const Clock& clock = Clock::Real())
      : clock_(clock), mode_(mode) {}

  void Found() {
    if (idle_rounds_ != 0 && !blocked_) score_ = score_ * 7 / 8 + kScoreMax / 8;
    idle_rounds_ = 0;
    idle_since_ns_ = 0;
    blocked_ = false;
  }

  bool ShouldBlock() {
    if (mode_ != Mode::kAuto) return mode_ == Mode::kBlock;
    if (block_at_once_ > 0) {
      --block_at_once_;
      blocked_ = true;
      return true;
    }
    // The clock costs 17 ns: it is read every eighth round.
    if ((++idle_rounds_ & 7) != 0) return false;
    const std::uint64_t now_ns = clock_.MonotonicNs();
    if (idle_since_ns_ == 0) {
      idle_since_ns_ = now_ns;
      return false;
    }
    if (now_ns - idle_since_ns_ < kSpinNs) return false;
    score_ = score_ * 7 / 8;
    if (score_ < kScoreMax / 2) {
      // Fewer than half of the last spins paid: block at once for a while, then probe again.
      block_at_once_ = 64;
      score_ = kScoreMax * 5 / 8;
    }
    idle_since_ns_ = 0;
    blocked_ = true;
    return true;
  }

 private:
  // About the cost of waking a thread here (50 to 80 us if a halted virtual CPU must be woken): a
  // spin of this length costs at most twice the best. With 20 us, over rings, both sides of a
  // client that puts batches of 64 waited for just as long and slept in every second round: 9 to 18
  // thousand calls per second instead of 35 to 41, and with two CPU hogs beside them no fewer.
  static constexpr std::uint64_t kSpinNs = 50'000;
  static constexpr std::uint32_t kScoreMax = 1'024;

  const Clock& clock_;
  const Mode mode_;
  std::uint32_t idle_rounds_ = 0;
  std::uint64_t idle_since_ns_ = 0;
  std::uint32_t block_at_once_ = 0;
  std::uint32_t score_ = kScoreMax;
  bool blocked_ = false;
};

}  // namespace tidepool::transport
