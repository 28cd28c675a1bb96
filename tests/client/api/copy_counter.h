// Counts how often a process copies a piece of memory of one size: for tests that say how often a
// value is copied. Linked into a test, or preloaded into a daemon (LD_PRELOAD), it takes the place
// of memcpy and memmove.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tidepool::testing {

struct CopyCounts {
  std::atomic<std::uint64_t> watched_bytes{0};  // Of the copies that count. 0: none.
  std::atomic<std::uint64_t> copies{0};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// Where a preloaded process keeps its counts: a file of sizeof(CopyCounts) bytes, zero.
inline constexpr const char kCopyCountsVariable[] = "TIDEPOOL_TEST_COPY_COUNTS";

// This process's counts.
CopyCounts& OwnCopyCounts();
// Those of another one, in the file at `path`. Mapped for ever.
CopyCounts* MapCopyCounts(const char* path);

}  // namespace tidepool::testing
