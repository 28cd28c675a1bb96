// A node's arenas as this process has mapped them, read-only.
//
//   who gets the descriptors -> [ArenaMap] <- DirectReader
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tidepool::internal {

// Node offsets (storage/arena.h) are distances from one base here too: whoever fills this reserves
// a range of addresses for all of the node's memory and maps each arena at its own offset, so an
// address is a sum, and a bit says whether it is there. What is mapped once stays, and does not
// shrink (the arenas are sealed), so an address that was given out is good as long as the map.
//
// Any number of threads; the range of addresses is the caller's, who unmaps it when no reader is
// left.
class ArenaMap {
 public:
  // `bytes`: of the range. A block is what arenas are cut into, a power of two of at least 4 KiB:
  // arenas begin and end at a multiple of it.
  ArenaMap(const std::byte* base, std::uint64_t bytes, int block_shift)
      : base_(base),
        block_shift_(block_shift),
        blocks_(bytes >> block_shift),
        mapped_(std::make_unique<std::atomic<std::uint64_t>[]>(blocks_ / 64 + 1)) {}

  // [begin, begin + bytes) can be read from now on; whole blocks within the range.
  void NoteMapped(std::uint64_t begin, std::uint64_t bytes) {
    const std::uint64_t end = (begin + bytes) >> block_shift_;
    for (std::uint64_t block = begin >> block_shift_; block < end && block < blocks_; ++block) {
      mapped_[block / 64].fetch_or(1ull << block % 64, std::memory_order_release);
    }
  }

  // Null: not all of it lies in one block that is mapped. Any numbers are allowed.
  const std::byte* At(std::uint64_t node_offset, std::uint64_t bytes) const {
    const std::uint64_t block = node_offset >> block_shift_;
    const std::uint64_t in_block = node_offset & ((1ull << block_shift_) - 1);
    if (block >= blocks_ || bytes > (1ull << block_shift_) - in_block) return nullptr;
    const std::uint64_t word = mapped_[block / 64].load(std::memory_order_acquire);
    return (word >> block % 64 & 1) != 0 ? base_ + node_offset : nullptr;
  }
  // Whether the node has such memory, so that asking for its arena may help.
  bool MayBeMapped(std::uint64_t node_offset) const {
    return node_offset >> block_shift_ < blocks_;
  }
  int block_shift() const { return block_shift_; }

 private:
  const std::byte* const base_;
  const int block_shift_;
  const std::uint64_t blocks_;
  const std::unique_ptr<std::atomic<std::uint64_t>[]> mapped_;
};

}  // namespace tidepool::internal
