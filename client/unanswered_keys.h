// Which keys a session has operations on that are not answered: what may not be read directly.
//
//   calls -> [UnansweredKeys] <- DirectReader's callers, before each read
#pragma once

#include <array>
#include <cstdint>

namespace tidepool::internal {

// Counters by hash: two keys may share one, so the answer errs on the side of asking the owner. A
// direct read of a key with an operation of one's own under way, even a read, could be older than
// what that one has seen, or will have.
//
// One thread at a time.
class UnansweredKeys {
 public:
  // `hash` is KeyHash(key). Each Add is followed by one Remove, when the operation is answered, has
  // ended unknown, or was never sent.
  void Add(std::uint64_t hash) { ++counters_[At(hash)]; }
  void Remove(std::uint64_t hash) { --counters_[At(hash)]; }
  bool MayHold(std::uint64_t hash) const { return counters_[At(hash)] != 0; }

 private:
  static constexpr int kBits = 10;  // 4 KiB; at 64 operations under way 6 % of reads err.
  // The high bits chose the partition, the low ones a bucket.
  static std::size_t At(std::uint64_t hash) { return hash * 0x9e3779b97f4a7c15 >> (64 - kBits); }

  std::array<std::uint32_t, std::size_t{1} << kBits> counters_{};
};

}  // namespace tidepool::internal
