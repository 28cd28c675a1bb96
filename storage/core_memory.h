// A core's share of the node's arenas: whole blocks, chunks cut from blocks, and the reserve.
//
// ArenaPool -> [CoreMemory] -> Log (segments), TagIndex (buckets), tables.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "storage/arena.h"

namespace tidepool::storage {

enum class MemoryClass : std::uint8_t {
  kUser,     // For puts; never touches the reserve.
  kReserve,  // Deletes and compaction: the reserve when all else is used.
};

inline constexpr std::uint64_t kChunkBytesMin = 4096;

// Owner core only. Node offsets as ArenaPool defines them; 0 is failure.
//
// Invariant: blocks held = segments + blocks cut into chunks + ready blocks; the reserve drawn
// never exceeds the reserve promised.
class CoreMemory {
 public:
  CoreMemory(ArenaPool& pool, std::uint64_t reserve_blocks);
  ~CoreMemory();
  CoreMemory(const CoreMemory&) = delete;
  CoreMemory& operator=(const CoreMemory&) = delete;

  std::uint64_t block_bytes() const { return block_bytes_; }
  std::uint64_t block_count_max() const { return pool_.block_count_max(); }
  std::byte* At(std::uint64_t node_offset) const { return base_ + node_offset; }
  std::uint64_t OffsetOf(const void* at) const {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(at) - base_);
  }

  // Contents are arbitrary.
  std::uint64_t AllocateBlock(MemoryClass memory_class);
  void FreeBlock(std::uint64_t node_offset);
  // A chunk of `bytes`, a power of two from 4 KiB to a block, aligned to its size within the block.
  // A buddy allocator: a partition of 64 buckets takes 4 KiB, not 2 MiB.
  std::uint64_t AllocateChunk(std::uint64_t bytes);
  void FreeChunk(std::uint64_t node_offset, std::uint64_t bytes);

  // Takes a further block ahead, so that an operation that begins a segment takes no lock. True:
  // more to do.
  bool KeepReady();

  // Blocks that a put could still get, on this core, without compaction.
  std::uint64_t BlocksAvailable() const { return pool_.BlocksAvailable() + ready_.size(); }
  // The reservation that serves allocations for users first. Null: none. See ReservationScope.
  Reservation* reservation() const { return reservation_; }
  std::uint64_t blocks_reserved() const {
    return reservation_ == nullptr ? 0 : reservation_->left();
  }
  // Takes a block of a reservation, as AllocateBlock. 0: no block is left.
  std::uint64_t TakeReserved(Reservation& from);
  // Gives the ready blocks back.
  void DropReady();
  ArenaPool& pool() const { return pool_; }
  std::uint64_t blocks_held() const { return blocks_held_; }
  std::uint64_t blocks_ready() const { return ready_.size(); }
  std::uint64_t blocks_chunked() const { return buddies_.size(); }
  std::uint64_t chunk_bytes_used() const { return chunk_bytes_used_; }
  std::uint64_t reserve_blocks() const { return reserve_blocks_; }
  std::uint64_t limit_bytes() const { return pool_.block_count_max() * block_bytes_; }
  bool reserve_promised() const { return reserve_promised_; }

 private:
  friend class ReservationScope;
  // A block cut into chunks: a binary tree of the longest free run below each node, in powers of
  // two.
  struct Buddy {
    std::uint64_t block = 0;
    std::vector<std::uint8_t> longest;  // log2(units) + 1; 0: full. Node 1 is the root.
  };
  int AllocateIn(std::size_t index, int order);
  void ReturnBlock(std::uint64_t node_offset);

  ArenaPool& pool_;
  const std::uint64_t block_bytes_;
  std::byte* const base_;
  const std::uint64_t reserve_blocks_;
  bool reserve_promised_ = false;
  std::uint64_t reserve_drawn_ = 0;
  std::uint64_t blocks_held_ = 0;
  std::uint64_t chunk_bytes_used_ = 0;
  std::vector<std::uint64_t> ready_;
  Reservation* reservation_ = nullptr;
  std::vector<Buddy> buddies_;
  // The root of each buddy's tree, side by side: with 64 GiB of chunks the search for room reads
  // 32 KiB instead of missing the cache 32,000 times.
  std::vector<std::uint8_t> longest_;
  absl::flat_hash_map<std::uint64_t, std::size_t> buddy_of_block_;
  int orders_ = 0;  // log2(block / 4 KiB).
};

// While it lives, this reservation serves the core's allocations for users first.
class ReservationScope {
 public:
  ReservationScope(CoreMemory& memory, Reservation* reservation)
      : memory_(memory), outer_(memory.reservation_) {
    memory_.reservation_ = reservation;
  }
  ~ReservationScope() { memory_.reservation_ = outer_; }
  ReservationScope(const ReservationScope&) = delete;
  ReservationScope& operator=(const ReservationScope&) = delete;

 private:
  CoreMemory& memory_;
  Reservation* const outer_;
};

}  // namespace tidepool::storage
