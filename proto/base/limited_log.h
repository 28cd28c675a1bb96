// Warnings that a stranger can cause at any rate: at most a line per second.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "proto/base/clock.h"
#include "proto/base/log.h"

namespace tidepool::log {

// Thread-safe; takes no lock. Each kind of warning has its own, for the life of the process.
class Limited {
 public:
  static constexpr std::uint64_t kEveryNs = 1'000'000'000;

  // Logs `message` with the number of messages left out since the last line; or only counts it.
  void Warn(std::string_view message, const Clock& clock = Clock::Real()) {
    std::uint64_t left_out = 0;
    if (!Take(&left_out, clock)) return;
    const std::string more =
        left_out == 0 ? "" : " (and " + std::to_string(left_out) + " more before)";
    log::Warn(std::string(message) + more);
  }

  // Returns true if a line is due; `left_out` messages have then passed without a line.
  bool Take(std::uint64_t* left_out, const Clock& clock = Clock::Real()) {
    const std::uint64_t now_ns = clock.MonotonicNs();
    std::uint64_t next_ns = next_ns_.load(std::memory_order_relaxed);
    if (now_ns < next_ns ||
        !next_ns_.compare_exchange_strong(next_ns, now_ns + kEveryNs, std::memory_order_relaxed)) {
      left_out_.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    *left_out = left_out_.exchange(0, std::memory_order_relaxed);
    return true;
  }

 private:
  std::atomic<std::uint64_t> next_ns_{0};
  std::atomic<std::uint64_t> left_out_{0};
};

}  // namespace tidepool::log
