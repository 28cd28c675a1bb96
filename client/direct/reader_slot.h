// Which of several slots a thread tries first.
#pragma once

#include <atomic>
#include <cstddef>

namespace tidepool::internal {

// Returns the slot that a thread tries first. Threads get different slots, so that each slot is
// free and in the thread's cache. Constant per thread. Take it modulo the number of slots.
inline std::size_t FirstReaderSlot() {
  static std::atomic<std::size_t> next{0};
  thread_local const std::size_t mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

}  // namespace tidepool::internal
