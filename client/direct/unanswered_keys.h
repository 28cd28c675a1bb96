// The keys of a client's own operations that are under way.
//
//   engine -> [UnansweredKeys] <- direct reads, before each
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tidepool::internal {

// Counters by hash: two keys may share one, so the answer errs on the side of asking the owner. A
// direct read of a key with an operation of one's own under way, even a read, could be older than
// what that one has seen, or will have. Of what has many keys, or none that is known, there is a
// count for each namespace.
//
// Adds and removes under one lock; MayHold by any thread: who has started an operation, or was told
// of it, sees it.
class UnansweredKeys {
 public:
  // `hash` is KeyHash(key). Each Add is followed by one Remove, when the operation is answered, has
  // ended unknown, or was never sent.
  void Add(std::uint64_t hash) { Change(counters_[At(hash)], 1); }
  void Remove(std::uint64_t hash) { Change(counters_[At(hash)], -1); }
  void AddUnnamed(std::uint32_t space) { Change(unnamed_[space % kSpaces], 1); }
  void RemoveUnnamed(std::uint32_t space) { Change(unnamed_[space % kSpaces], -1); }
  bool MayHold(std::uint32_t space, std::uint64_t hash) const {
    return (counters_[At(hash)].load(std::memory_order_relaxed) |
            unnamed_[space % kSpaces].load(std::memory_order_relaxed)) != 0;
  }

 private:
  using Counter = std::atomic<std::uint32_t>;
  static constexpr int kBits = 10;  // 4 KiB; at 64 operations under way 6 % of reads err.
  static constexpr std::size_t kSpaces = 64;

  // The high bits chose the partition, the low ones a bucket.
  static std::size_t At(std::uint64_t hash) { return hash * 0x9e3779b97f4a7c15 >> (64 - kBits); }
  static void Change(Counter& counter, int by) {
    counter.store(counter.load(std::memory_order_relaxed) + static_cast<std::uint32_t>(by),
                  std::memory_order_relaxed);
  }

  std::array<Counter, std::size_t{1} << kBits> counters_{};
  std::array<Counter, kSpaces> unnamed_{};
};

}  // namespace tidepool::internal
