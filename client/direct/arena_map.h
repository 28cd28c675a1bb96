// A node's arenas, mapped read-only into this process.
//
//   holder of the descriptors -> [ArenaMap] <- DirectReader
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tidepool::internal {

// Node offsets (storage/arena.h) are distances from a base address here. The caller reserves a
// range of addresses for all of the node's memory and maps each arena at its own offset. An address
// is thus a sum, and a bit says if it is mapped. Mapped memory stays and does not shrink (arenas
// are sealed), so an address is valid as long as the map.
//
// Thread-safety: any number of threads. The caller owns the range of addresses, and unmaps it after
// the last reader.
class ArenaMap {
 public:
  // `bytes`: size of the range. Arenas are cut into blocks and begin and end at a block. A block is
  // a power of two of at least 4 KiB.
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

  // Returns null unless all bytes lie in a single mapped block. Any numbers are allowed.
  const std::byte* At(std::uint64_t node_offset, std::uint64_t bytes) const {
    const std::uint64_t block = node_offset >> block_shift_;
    const std::uint64_t in_block = node_offset & ((1ull << block_shift_) - 1);
    if (block >= blocks_ || bytes > (1ull << block_shift_) - in_block) return nullptr;
    const std::uint64_t word = mapped_[block / 64].load(std::memory_order_acquire);
    return (word >> block % 64 & 1) != 0 ? base_ + node_offset : nullptr;
  }
  // True if the node may have this memory, so a request for its arena may help.
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
