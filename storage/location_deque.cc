#include "storage/location_deque.h"

#include <algorithm>
#include <cstring>

#include "proto/base/check.h"

namespace tidepool::storage {

LocationDeque::~LocationDeque() {
  for (const Chunk& chunk : chunks_) memory_.FreeChunk(chunk.offset, kChunkBytesMin);
  if (spare_ != 0) memory_.FreeChunk(spare_, kChunkBytesMin);
}

bool LocationDeque::MakeRoom(std::uint64_t id) {
  TP_DCHECK(id >= end_);
  if (empty()) {
    if (!chunks_.empty() || spare_ != 0) return true;
    spare_ = memory_.AllocateChunk(kChunkBytesMin);
    return spare_ != 0;
  }
  while (ChunkOf(id) >= chunks_.size()) {
    // The spare is used first; the one that is missing then is the next round's.
    if (spare_ == 0) spare_ = memory_.AllocateChunk(kChunkBytesMin);
    if (spare_ == 0) return false;
    AddChunk();
  }
  return true;
}

void LocationDeque::AddChunk() {
  TP_CHECK(spare_ != 0);
  std::memset(memory_.At(spare_), 0, kChunkBytesMin);
  chunks_.push_back({spare_, 0});
  spare_ = 0;
}

void LocationDeque::Append(std::uint64_t id, std::uint64_t location) {
  TP_DCHECK(location != 0);
  if (empty()) {
    begin_ = id;
    if (chunks_.empty()) AddChunk();
  }
  TP_CHECK(ChunkOf(id) < chunks_.size());
  *WordOf(id) = location;
  ++chunks_[ChunkOf(id)].size;
  ++size_;
  end_ = id + 1;
}

void LocationDeque::Erase(std::uint64_t id) {
  std::uint64_t* word = Find(id);
  TP_CHECK(word != nullptr);
  *word = 0;
  --chunks_[ChunkOf(id)].size;
  --size_;
  if (id == begin_) PassEmptyFront();
}

void LocationDeque::PassEmptyFront() {
  if (size_ == 0) {
    begin_ = end_;
    // One chunk stays, all of it 0: the next id may lie anywhere in it.
    while (chunks_.size() > 1) DropFrontChunk();
    return;
  }
  while (chunks_.front().size == 0) {
    begin_ = (begin_ / kIdsPerChunk + 1) * kIdsPerChunk;
    DropFrontChunk();
  }
  while (*WordOf(begin_) == 0) ++begin_;
}

void LocationDeque::DropFrontChunk() {
  if (spare_ == 0) {
    spare_ = chunks_.front().offset;
  } else {
    memory_.FreeChunk(chunks_.front().offset, kChunkBytesMin);
  }
  chunks_.pop_front();
}

void LocationDeque::CheckInvariants() const {
  std::uint64_t size = 0;
  for (const Chunk& chunk : chunks_) {
    const auto* words = reinterpret_cast<const std::uint64_t*>(memory_.At(chunk.offset));
    const auto used = static_cast<std::uint64_t>(
        std::count_if(words, words + kIdsPerChunk, [](std::uint64_t word) { return word != 0; }));
    TP_CHECK(used == chunk.size);
    size += used;
  }
  TP_CHECK(size == size_);
  TP_CHECK((size_ == 0) == empty());
  if (empty()) return;
  TP_CHECK(*WordOf(begin_) != 0);
  TP_CHECK(*WordOf(end_ - 1) != 0 || size_ < end_ - begin_);
}

}  // namespace tidepool::storage
