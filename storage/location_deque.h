// Where the records of a queue lie, by their dense ids: an array of words that grows at its end and
// shrinks at its front.
//
// QueueStore -> [LocationDeque] -> a record's location in the log.
#pragma once

#include <cstdint>
#include <deque>

#include "storage/core_memory.h"

namespace tidepool::storage {

// Words lie in chunks of 4 KiB of the core's memory (512 ids each): 8 bytes per item. The list of
// chunks itself is on the heap, 16 bytes per 512 ids. An id that was erased out of order leaves an
// empty word (0) until the front passes it.
//
// Owner core only. Every call costs O(1); erasing the front passes empty words, whole chunks of
// them at once.
//
// Invariants: the word at begin() is not 0 unless the deque is empty; each chunk counts its words
// that are not 0; empty() means begin() == end().
class LocationDeque {
 public:
  static constexpr std::uint64_t kIdsPerChunk = kChunkBytesMin / sizeof(std::uint64_t);

  explicit LocationDeque(CoreMemory& memory) : memory_(memory) {}
  ~LocationDeque();
  LocationDeque(const LocationDeque&) = delete;
  LocationDeque& operator=(const LocationDeque&) = delete;

  std::uint64_t begin() const { return begin_; }
  std::uint64_t end() const { return end_; }
  bool empty() const { return begin_ == end_; }
  // Ids whose word is not 0.
  std::uint64_t size() const { return size_; }

  // True: Append(id) will succeed. False: memory is used up, and nothing has changed but chunks
  // that are at hand now. `id` is not below end().
  bool MakeRoom(std::uint64_t id);
  // Ids between end() and `id` get empty words; an empty deque begins at `id`. Room must have been
  // made.
  void Append(std::uint64_t id, std::uint64_t location);

  // The word of an id; null if it is outside or empty. Valid until the id is erased.
  std::uint64_t* Find(std::uint64_t id) const {
    if (id < begin_ || id >= end_) return nullptr;
    std::uint64_t* word = WordOf(id);
    return *word == 0 ? nullptr : word;
  }
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

  std::size_t ChunkOf(std::uint64_t id) const {
    return static_cast<std::size_t>(id / kIdsPerChunk - begin_ / kIdsPerChunk);
  }
  std::uint64_t* WordOf(std::uint64_t id) const {
    auto* words = reinterpret_cast<std::uint64_t*>(memory_.At(chunks_[ChunkOf(id)].offset));
    return words + id % kIdsPerChunk;
  }
  void AddChunk();
  void DropFrontChunk();
  void PassEmptyFront();

  CoreMemory& memory_;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
  std::uint64_t size_ = 0;
  std::deque<Chunk> chunks_;  // From the one of begin_ on; may reach one behind that of end_.
  // Kept, so that a queue that is emptied and filled again at a chunk's edge does not allocate.
  std::uint64_t spare_ = 0;
};

}  // namespace tidepool::storage
