// Which of several slots a thread tries first.
#pragma once

#include <atomic>
#include <cstddef>

namespace tidepool::internal {

// Threads take different slots first, so that each finds its own free and in its cache. Constant
// per thread; take it modulo the number of slots.
inline std::size_t FirstReaderSlot() {
  static std::atomic<std::size_t> next{0};
  thread_local const std::size_t mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

}  // namespace tidepool::internal
