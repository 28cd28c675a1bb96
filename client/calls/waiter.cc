#include "client/calls/waiter.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

namespace tidepool::internal {

void Waiter::Wake() {
  if (word_.exchange(kWoken, std::memory_order_acq_rel) != kAsleep) return;
  syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void Waiter::Sleep(std::uint64_t until_ns) {
  std::uint32_t expected = kAwake;
  if (!word_.compare_exchange_strong(expected, kAsleep, std::memory_order_acq_rel)) return;
  // FUTEX_WAIT_BITSET takes an absolute time of CLOCK_MONOTONIC, the clock behind Clock::Real().
  constexpr std::uint64_t kFarNs = 1ull << 62;
  const std::uint64_t at_ns = std::min(until_ns, kFarNs);
  const timespec at{static_cast<time_t>(at_ns / 1'000'000'000),
                    static_cast<long>(at_ns % 1'000'000'000)};
  syscall(SYS_futex, &word_, FUTEX_WAIT_BITSET_PRIVATE, kAsleep, &at, nullptr,
          FUTEX_BITSET_MATCH_ANY);
  expected = kAsleep;
  word_.compare_exchange_strong(expected, kAwake, std::memory_order_acq_rel);
}

}  // namespace tidepool::internal
