// What answers of partitions with replicas wait for: copies that must have the changes before them.
//
//   copy_source (makes) -> [copy_waits] -> core/commit_waiters, core/reply_cache (hold)
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace tidepool::daemon {

// Progress of a copy that its owner waits for. It outlives the source, for answers that are held.
struct CopyProgress {
  enum class End : std::uint8_t {
    kNone,
    kReleased,  // The owner has read an entry without the copy: nobody waits for it any more.
    kVoid,      // The owner is not the owner any more: what the copy has not taken is unknown.
  };

  End end = End::kNone;
  std::shared_ptr<const std::uint64_t> acked;  // Of the link.
  // Beyond it acknowledgements mean nothing: the copy has failed, or its link is lost.
  std::uint64_t frozen = UINT64_MAX;
  // Number of times that no large value was left to be sent, and the position at the last time.
  std::uint64_t clears = 0;
  std::uint64_t clear_position = 0;

  std::uint64_t taken() const { return std::min(*acked, frozen); }
  void Freeze() { frozen = taken(); }
};

// Invariant: one wait per copy.
class CopyWaits {
 public:
  enum class State : std::uint8_t {
    kSettled,  // Every copy has what is waited for, or does not count any more.
    kWaiting,
    kVoid,  // It will never be known.
  };

  bool empty() const { return waits_.empty(); }
  void clear() { waits_.clear(); }
  // `clears`: not 0 where large values were left; the wait then ends behind them.
  void Add(std::shared_ptr<const CopyProgress> copy, std::uint64_t position,
           std::uint64_t clears = 0) {
    for (Wait& wait : waits_) {
      if (wait.copy != copy) continue;
      wait.position = std::max(wait.position, position);
      wait.clears = std::max(wait.clears, clears);
      return;
    }
    waits_.push_back({std::move(copy), position, clears});
  }
  void Add(const CopyWaits& other) {
    for (const Wait& wait : other.waits_) Add(wait.copy, wait.position, wait.clears);
  }
  State state() const {
    State state = State::kSettled;
    for (const Wait& wait : waits_) {
      if (IsSettled(wait)) continue;
      if (wait.copy->end == CopyProgress::End::kVoid) return State::kVoid;
      state = State::kWaiting;
    }
    return state;
  }

 private:
  struct Wait {
    std::shared_ptr<const CopyProgress> copy;
    std::uint64_t position;
    std::uint64_t clears;
  };

  static bool IsSettled(const Wait& wait) {
    const CopyProgress& copy = *wait.copy;
    if (copy.end == CopyProgress::End::kReleased) return true;
    if (wait.clears > copy.clears) return false;
    const std::uint64_t behind = wait.clears == 0 ? 0 : copy.clear_position;
    return copy.taken() >= std::max(wait.position, behind);
  }

  std::vector<Wait> waits_;
};

}  // namespace tidepool::daemon
