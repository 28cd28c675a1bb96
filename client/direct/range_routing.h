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

// Key range of a partition. Immutable.
struct KeyBounds {
  std::string begin;               // Included.
  std::optional<std::string> end;  // Excluded. No value: this is the last partition.

  static KeyBounds Of(const placement::Ranges& ranges, std::uint32_t partition);
  bool Hold(Bytes key) const;
};

// The client's newest ranges. A split replaces them, without waiting for readers of the old ranges.
// Thread-safety: any thread.
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
  // A thread's own copy of the pointer. If threads counted references to one pointer, each read
  // would move its cache line to another core.
  struct alignas(64) Slot {
    std::atomic_flag busy;
    std::uint64_t version = 0;
    std::shared_ptr<const placement::Ranges> ranges;
  };

  std::array<Slot, 16> slots_;
  std::atomic<std::uint64_t> version_{0};  // Version of `newest_`; 0: no ranges.
  std::mutex mutex_;
  std::shared_ptr<const placement::Ranges> newest_;
};

}  // namespace tidepool::internal
