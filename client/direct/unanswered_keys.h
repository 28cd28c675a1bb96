// The keys of a client's own operations that are under way.
//
//   engine -> [UnansweredKeys] <- direct reads, before each
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tidepool::internal {

// Counts the unanswered operations by hash. Two keys may share a counter, so the answer errs
// towards asking the owner. A direct read of a key could be older than the result of the program's
// own operation under way, even of a read. Operations with many or unknown keys are counted per
// namespace.
//
// Thread-safety: Add and Remove under one lock; MayHold on any thread. A thread that started an
// operation, or heard of it, sees its count.
class UnansweredKeys {
 public:
  // `hash` is KeyHash(key). Each Add is followed by one Remove: when the operation is answered, has
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

  // The high bits chose the partition, and the low bits a bucket.
  static std::size_t At(std::uint64_t hash) { return hash * 0x9e3779b97f4a7c15 >> (64 - kBits); }
  static void Change(Counter& counter, int by) {
    counter.store(counter.load(std::memory_order_relaxed) + static_cast<std::uint32_t>(by),
                  std::memory_order_relaxed);
  }

  std::array<Counter, std::size_t{1} << kBits> counters_{};
  std::array<Counter, kSpaces> unnamed_{};
};

}  // namespace tidepool::internal
