// Where the records of a queue lie, by their ids, which are dense but for a few jumps: an array of
// words that grows at its end and shrinks at its front.
//
// QueueStore -> [LocationDeque] -> a record's location in the log.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "storage/core_memory.h"

namespace tidepool::storage {

// Words lie in chunks of 4 KiB of the core's memory (512 ids each): 8 bytes per item. The list of
// chunks itself is on the heap, 16 bytes per 512 ids. An id that was erased out of order leaves an
// empty word (0) until the front passes it. Ids may jump by more than a chunk, as after the return
// of a queue under a new term; words do not. The position of a word is its id less the jumps before
// it.
//
// Owner core only. Every call costs O(1), and one step for each jump between begin() and the id;
// erasing the front passes empty words, whole chunks of them at once.
//
// Invariants: the word at begin() is not 0 unless the deque is empty; each chunk counts its words
// that are not 0; empty() means begin() == end(); jumps grow in id and position.
class LocationDeque {
 public:
  static constexpr std::uint64_t kIdsPerChunk = kChunkBytesMin / sizeof(std::uint64_t);

  explicit LocationDeque(CoreMemory& memory) : memory_(memory) {}
  ~LocationDeque();
  LocationDeque(const LocationDeque&) = delete;
  LocationDeque& operator=(const LocationDeque&) = delete;

  std::uint64_t begin() const { return empty() ? id_end_ : IdOf(begin_); }
  std::uint64_t end() const { return id_end_; }
  bool empty() const { return begin_ == end_; }
  // Number of ids whose word is not 0.
  std::uint64_t size() const { return size_; }

  // True: Append(id) will succeed. False: memory is used up, and nothing has changed but chunks
  // that are at hand now. `id` is not below end().
  bool MakeRoom(std::uint64_t id);
  // Ids between end() and `id` get empty words, or are jumped over; an empty deque begins at `id`.
  // Room must have been made.
  void Append(std::uint64_t id, std::uint64_t location);

  // The word of an id; null if it is outside or empty. Valid until the id is erased.
  std::uint64_t* Find(std::uint64_t id) const {
    const std::uint64_t position = jumps_.empty() ? id : PositionOf(id);
    if (position < begin_ || position >= end_) return nullptr;
    std::uint64_t* word = WordOf(position);
    return *word == 0 ? nullptr : word;
  }
  // The first id from `from` on that is present; end(): none.
  std::uint64_t Next(std::uint64_t from) const;
  // The id must be present. Needs no memory.
  void Erase(std::uint64_t id);

  std::uint64_t allocated_bytes() const {
    return (chunks_.size() + (spare_ != 0 ? 1 : 0)) * kChunkBytesMin;
  }

  // Walks everything; for tests.
  void CheckInvariants() const;

 private:
  struct Chunk {
    std::uint64_t offset;  // Node offset.
    std::uint64_t size;    // Words that are not 0.
  };

  // From its id on ids go on at its position.
  struct Jump {
    std::uint64_t id;
    std::uint64_t position;
  };

  std::size_t ChunkOf(std::uint64_t position) const {
    return static_cast<std::size_t>(position / kIdsPerChunk - begin_ / kIdsPerChunk);
  }
  std::uint64_t* WordOf(std::uint64_t position) const {
    auto* words = reinterpret_cast<std::uint64_t*>(memory_.At(chunks_[ChunkOf(position)].offset));
    return words + position % kIdsPerChunk;
  }
  std::uint64_t PositionOf(std::uint64_t id) const;
  std::uint64_t IdOf(std::uint64_t position) const;
  std::uint64_t PositionToAppend(std::uint64_t id) const;
  void AddChunk();
  void DropFrontChunk();
  void PassEmptyFront();

  CoreMemory& memory_;
  std::uint64_t begin_ = 0;  // Positions.
  std::uint64_t end_ = 0;
  std::uint64_t id_end_ = 0;  // Behind the last id so far.
  std::uint64_t size_ = 0;
  std::vector<Jump> jumps_;
  std::deque<Chunk> chunks_;  // From the chunk of begin_ on; may reach a chunk beyond end_.
  // Kept: a queue that is emptied and filled again at a chunk's edge then does not allocate.
  std::uint64_t spare_ = 0;
};

}  // namespace tidepool::storage
