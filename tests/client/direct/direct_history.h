// What happened to each key, and whether what a direct read found can be explained by it.
//
// Lies in memory that the owner and all readers share, in one process or several: nothing in it is
// a pointer. Every change of a key has a number; a value says of which change it is, and can be
// checked to be whole.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "proto/base/bytes.h"
#include "storage/layout.h"

namespace tidepool::internal {

// What is so after a change.
enum class AfterChange : std::uint8_t {
  kNone = 0,
  kValue,
  kAbsent,
  kHiddenValue,   // Within a batch: nobody may see it.
  kHiddenAbsent,  // The same.
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
  // Whoever asked is told.
  void Acknowledge(std::uint32_t key, std::uint64_t number);

  // The view that is handed out now.
  void Hand(const storage::DirectView& view);
  // False: it is being changed, or there is none.
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
  // Whether a read since then may have found this; null: nothing. `seen`: what this reader has
  // found of the key last, which it raises. Writes what is wrong to `why`.
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
  std::atomic<std::uint64_t> turns{0};                   // Of the owner.
  std::atomic<std::uint64_t> shown_until_ns{0};
  // The same from when it is true: what an owner tells a reader that has another clock.
  std::atomic<std::uint64_t> leased_until_ns{0};
  std::atomic<std::uint64_t> taken_over{0};  // How often another owner has served meanwhile,
  std::atomic<std::uint64_t> come_back{0};   // and the first one has noticed.
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
