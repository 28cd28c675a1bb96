// Keys and times of the changes that a core link has sent. Decides if a read without an answer may
// be sent again.
//
//   core link, with each frame -> [SentChanges] <- core link, when a connection or a daemon is gone
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace tidepool::internal {

// The latest change by the hash of its key. Two keys may share a place, so the answer errs towards
// giving a read up. Guarded by the client's lock.
class SentChanges {
 public:
  // `hash` is KeyHash(key); `sequence` is the place of the change in the order of calling.
  void Note(std::uint64_t hash, std::uint64_t sequence) { Raise(latest_[At(hash)], sequence); }
  // Notes a change that has many or unknown keys.
  void NoteUnnamed(std::uint32_t space, std::uint64_t sequence) {
    Raise(unnamed_[space % kSpaces], sequence);
  }
  // True if a change that may concern this key was called after `sequence` and has been sent.
  bool HasLater(std::uint32_t space, std::uint64_t hash, std::uint64_t sequence) const {
    return std::max(latest_[At(hash)], unnamed_[space % kSpaces]) > sequence;
  }

 private:
  static constexpr int kBits = 10;  // 8 KiB for each core of a daemon.
  static constexpr std::size_t kSpaces = 64;

  // The high bits chose the partition, and the low bits a bucket.
  static std::size_t At(std::uint64_t hash) { return hash * 0x9e3779b97f4a7c15 >> (64 - kBits); }
  static void Raise(std::uint64_t& latest, std::uint64_t sequence) {
    latest = std::max(latest, sequence);
  }

  std::array<std::uint64_t, std::size_t{1} << kBits> latest_{};
  std::array<std::uint64_t, kSpaces> unnamed_{};
};

}  // namespace tidepool::internal
