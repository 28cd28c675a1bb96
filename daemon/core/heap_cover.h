// Heap used by a core's clients, and the part of --memory that is reserved for it.
//
//   core -> [HeapCover] -> storage/arena; asked by sessions
#pragma once

#include <algorithm>
#include <cstdint>

#include "proto/base/limits.h"
#include "storage/arena.h"

namespace tidepool::daemon {

// Cached replies and frame buffers lie on the heap, and rings beside the arenas, because there are
// few most of the time. To keep the daemon within --memory, blocks of its arenas stay unused for
// them, as many as are needed now: records get the rest. Rejected: a fixed part of --memory for the
// worst case (a sixteenth for each core), which would be empty in all ordinary runs.
//
// Owner core only.
class HeapCover {
 public:
  // `free_bytes`: heap that the core may use beside the arenas, without reserving a block.
  HeapCover(storage::ArenaPool& pool, std::uint64_t free_bytes)
      : pool_(pool), free_bytes_(free_bytes) {}
  ~HeapCover() { pool_.Unpromise(blocks_); }
  HeapCover(const HeapCover&) = delete;
  HeapCover& operator=(const HeapCover&) = delete;

  // Returns the free heap of a core of a node with `memory_bytes`. OutsideBytes includes it.
  static constexpr std::uint64_t FreeBytes(std::uint64_t memory_bytes, std::uint32_t cores) {
    return std::max<std::uint64_t>(memory_bytes / 160, 8ull << 20) / cores;
  }

  // Returns the part of --memory that no arena gets: code, heap and network buffers of a daemon at
  // work, 24 MiB and 8 MiB per core by measurement, 16 MiB per core more for the buffers of a
  // device, and what clients have free. A node below 256 MiB keeps less, none at the least memory:
  // it exceeds --memory by its code instead.
  static constexpr std::uint64_t OutsideBytes(std::uint64_t memory_bytes, std::uint32_t cores,
                                              bool has_device) {
    const std::uint64_t per_core = has_device ? 24ull << 20 : 8ull << 20;
    const std::uint64_t wanted =
        (24ull << 20) + per_core * cores + FreeBytes(memory_bytes, cores) * cores;
    const std::uint64_t least = limits::kMemoryBytesMin;
    return std::min(wanted, (std::max(memory_bytes, least) - least) / 4);
  }

  // Returns the heap that is reserved.
  std::uint64_t bytes() const { return free_bytes_ + blocks_ * pool_.block_bytes(); }
  // Reserves up to `wanted` as far as memory allows, rounded up to a block; gives the rest back to
  // the records.
  void Fit(std::uint64_t wanted);

 private:
  storage::ArenaPool& pool_;
  const std::uint64_t free_bytes_;
  std::uint64_t blocks_ = 0;  // Reserved for this core.
};

}  // namespace tidepool::daemon
