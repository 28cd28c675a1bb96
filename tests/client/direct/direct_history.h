// The history of each key, and the check that it explains the result of a direct read.
//
// Lies in memory that the owner and all readers share, in one process or several, so it has no
// pointer. Every change of a key has a number. A value names its change, and can be checked to be
// whole.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "proto/base/bytes.h"
#include "storage/layout.h"

namespace tidepool::internal {

// State after a change.
enum class AfterChange : std::uint8_t {
  kNone = 0,
  kValue,
  kAbsent,
  kHiddenValue,   // Within a batch: no reader may see it.
  kHiddenAbsent,  // Within a batch: no reader may see the absence.
};

class DirectHistory {
 public:
  static constexpr std::uint32_t kKeys = 48;
  static constexpr std::uint64_t kChangesKept = 4096;  // Per key.

  // ---- The owner's side. Numbers grow per key.
  std::uint64_t NextOf(std::uint32_t key) const { return keys_[key].begun.load() + 1; }
  // Before the store is changed. `expiry_ms`: 0, or when the value is gone by itself.
  void Begin(std::uint32_t key, std::uint64_t number, AfterChange after,
             std::uint64_t expiry_ms = 0);
  // Notes that the caller has its answer.
  void Acknowledge(std::uint32_t key, std::uint64_t number);

  // The view that is handed out now.
  void Hand(const storage::DirectView& view);
  // Returns false if the view is being changed, or there is none.
  bool Fetch(storage::DirectView* view) const;

  // ---- A reader's side.
  struct Watch {
    std::uint32_t key = 0;
    std::uint64_t acknowledged = 0;
    std::uint64_t wall_ms = 0;
  };
  Watch Before(std::uint32_t key, std::uint64_t wall_ms) const {
    return {key, keys_[key].acknowledged.load(), wall_ms};
  }
  // True if a read since then may have found this; null: no value. `seen`: the reader's last find
  // for this key, which the call raises. `why` receives the error.
  bool Explains(const Watch& watch, const Bytes* value, std::uint64_t wall_ms, std::uint64_t* seen,
                std::string* why) const;

  // ---- Values: groups of units, each of which knows its group; an append adds a group.
  static std::vector<std::byte> ValueOf(std::uint32_t key, std::uint64_t number,
                                        std::uint32_t units);
  // The number of the last group; 0: it is not whole.
  static std::uint64_t NumberIn(Bytes value, std::uint32_t key);

  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> answered{0};
  std::atomic<std::uint64_t> found{0};
  std::array<std::atomic<std::uint64_t>, 16> refused{};  // By DirectRefusal.
  std::atomic<std::uint64_t> turns{0};                   // Turns of the owner.
  std::atomic<std::uint64_t> shown_until_ns{0};
  // End of the lease that the store shows, set after ShowLease; shown_until_ns is set before it. An
  // owner reports it to a reader with another clock.
  std::atomic<std::uint64_t> leased_until_ns{0};
  std::atomic<std::uint64_t> taken_over{0};  // Times that another owner has served meanwhile.
  std::atomic<std::uint64_t> come_back{0};   // Times that the first owner has noticed it.
  std::atomic<int> violations{0};
  std::array<char, 256> first_violation{};

  void Violate(const std::string& why);

 private:
  struct Change {
    std::atomic<std::uint64_t> number{0};
    std::atomic<std::uint64_t> expiry_ms{0};
    std::atomic<AfterChange> after{AfterChange::kNone};
  };
  struct PerKey {
    std::atomic<std::uint64_t> begun{0};
    std::atomic<std::uint64_t> acknowledged{0};
    std::array<Change, kChangesKept> changes;
  };
  static constexpr std::size_t kViewWords = sizeof(storage::DirectView) / sizeof(std::uint64_t);

  std::array<PerKey, kKeys> keys_;
  std::atomic<std::uint64_t> view_changes_{0};  // Odd: it is being changed.
  std::array<std::atomic<std::uint64_t>, kViewWords> view_{};
};

}  // namespace tidepool::internal
