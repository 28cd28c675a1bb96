// What a core's clients take of the heap, and the part of --memory that is set aside for it.
//
//   core -> [HeapCover] -> storage/arena; asked by sessions
#pragma once

#include <algorithm>
#include <cstdint>

#include "storage/arena.h"

namespace tidepool::daemon {

// Cached replies and frame buffers lie on the heap, and rings beside the arenas, since most of the
// time there are few. So that a daemon keeps to --memory all the same, blocks of its arenas stay
// unused for them, as many as are needed now: records get what clients leave. Rejected: a fixed
// part of --memory for the worst case (a sixteenth for each core), which would be empty in all
// ordinary runs.
//
// Owner core only.
class HeapCover {
 public:
  // `free_bytes`: what the core may have beside --memory; covered without a block.
  HeapCover(storage::ArenaPool& pool, std::uint64_t free_bytes)
      : pool_(pool), free_bytes_(free_bytes) {}
  ~HeapCover() { pool_.Unpromise(blocks_); }
  HeapCover(const HeapCover&) = delete;
  HeapCover& operator=(const HeapCover&) = delete;

  // Of a node of `memory_bytes` with so many cores: half of what it may have beside --memory, which
  // is a twentieth, or 64 MiB. The other half is for code, gRPC and the network.
  static constexpr std::uint64_t FreeBytes(std::uint64_t memory_bytes, std::uint32_t cores) {
    return std::max<std::uint64_t>(memory_bytes / 20, 64ull << 20) / 2 / cores;
  }

  // Heap that is covered.
  std::uint64_t bytes() const { return free_bytes_ + blocks_ * pool_.block_bytes(); }
  // Covers as much of `wanted` as there is memory for, and no more than a block above it: gives the
  // rest back to the records.
  void Fit(std::uint64_t wanted);

 private:
  storage::ArenaPool& pool_;
  const std::uint64_t free_bytes_;
  std::uint64_t blocks_ = 0;  // Promised to this core.
};

}  // namespace tidepool::daemon
