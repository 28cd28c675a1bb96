// Which partition of an ordered namespace has a key, for readers that do not take the client's
// lock.
//
//   engine => [RangeRouting] -> direct space
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "proto/base/bytes.h"
#include "proto/placement/ranges.h"

namespace tidepool::internal {

// Keys of one partition. Immutable.
struct KeyBounds {
  std::string begin;               // Included.
  std::optional<std::string> end;  // Excluded; none: there is no partition above.

  static KeyBounds Of(const placement::Ranges& ranges, std::uint32_t partition);
  bool Hold(Bytes key) const;
};

// The client's newest ranges. A split replaces them; readers of the old ones are not waited for.
// Any thread.
class RangeRouting {
 public:
  RangeRouting() = default;
  RangeRouting(const RangeRouting&) = delete;
  RangeRouting& operator=(const RangeRouting&) = delete;

  void Set(std::shared_ptr<const placement::Ranges> ranges);
  // Returns the partition of the key in the ranges of a moment ago. Nothing: there are no ranges
  // yet, or too many threads look at the same moment.
  std::optional<std::uint32_t> IndexOf(Bytes key);

 private:
  // A thread's own copy of the pointer. Threads that counted references of one pointer would pass
  // its cache line around with each read.
  struct alignas(64) Slot {
    std::atomic_flag busy;
    std::uint64_t version = 0;
    std::shared_ptr<const placement::Ranges> ranges;
  };

  std::array<Slot, 16> slots_;
  std::atomic<std::uint64_t> version_{0};  // Of `newest_`; 0: none.
  std::mutex mutex_;
  std::shared_ptr<const placement::Ranges> newest_;
};

}  // namespace tidepool::internal
