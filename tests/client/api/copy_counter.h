// Counts a process's copies of memory blocks of a given size, for tests of the number of copies of
// a value. It replaces memcpy and memmove: linked into a test, or preloaded into a daemon
// (LD_PRELOAD).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tidepool::testing {

struct CopyCounts {
  std::atomic<std::uint64_t> watched_bytes{0};  // Size of the counted copies. 0: none.
  std::atomic<std::uint64_t> copies{0};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// Where a preloaded process keeps its counts: a file of sizeof(CopyCounts) bytes, zero.
inline constexpr const char kCopyCountsVariable[] = "TIDEPOOL_TEST_COPY_COUNTS";

// This process's counts.
CopyCounts& OwnCopyCounts();
// Maps the counts of another process, in the file at `path`, for ever.
CopyCounts* MapCopyCounts(const char* path);

}  // namespace tidepool::testing
