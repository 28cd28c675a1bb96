#include "storage/location_deque.h"

#include <algorithm>
#include <cstring>

#include "proto/base/check.h"

namespace tidepool::storage {

LocationDeque::~LocationDeque() {
  for (const Chunk& chunk : chunks_) memory_.FreeChunk(chunk.offset, kChunkBytesMin);
  if (spare_ != 0) memory_.FreeChunk(spare_, kChunkBytesMin);
}

// end_: no such id is there, as far as jumps tell.
std::uint64_t LocationDeque::PositionOf(std::uint64_t id) const {
  std::uint64_t bound = end_;
  for (std::size_t i = jumps_.size(); i-- > 0; bound = jumps_[i].position) {
    if (jumps_[i].id > id) continue;
    const std::uint64_t position = jumps_[i].position + (id - jumps_[i].id);
    return position < bound ? position : end_;
  }
  return id < bound ? id : end_;
}

std::uint64_t LocationDeque::IdOf(std::uint64_t position) const {
  for (std::size_t i = jumps_.size(); i-- > 0;) {
    if (jumps_[i].position <= position) return jumps_[i].id + (position - jumps_[i].position);
  }
  return position;
}

// Of a deque that is not empty.
std::uint64_t LocationDeque::PositionToAppend(std::uint64_t id) const {
  const std::uint64_t gap = id - id_end_;
  return gap > kIdsPerChunk ? end_ : end_ + gap;
}

std::uint64_t LocationDeque::Next(std::uint64_t from) const {
  if (empty() || from >= id_end_) return id_end_;
  std::uint64_t position = begin_;
  if (from > IdOf(begin_)) {
    position = PositionOf(from);
    // In a gap: behind it the next jump begins.
    for (std::size_t i = 0; position == end_ && i < jumps_.size(); ++i) {
      if (jumps_[i].id > from) position = jumps_[i].position;
    }
  }
  while (position < end_ && *WordOf(position) == 0) ++position;
  return position < end_ ? IdOf(position) : id_end_;
}

bool LocationDeque::MakeRoom(std::uint64_t id) {
  TP_DCHECK(id >= id_end_);
  if (empty()) {
    if (!chunks_.empty() || spare_ != 0) return true;
    spare_ = memory_.AllocateChunk(kChunkBytesMin);
    return spare_ != 0;
  }
  while (ChunkOf(PositionToAppend(id)) >= chunks_.size()) {
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
  std::uint64_t position = id;
  if (empty()) {
    begin_ = id;
    jumps_.clear();
    if (chunks_.empty()) AddChunk();
  } else {
    position = PositionToAppend(id);
    if (position == end_ && id != id_end_) jumps_.push_back({id, position});
  }
  TP_CHECK(ChunkOf(position) < chunks_.size());
  *WordOf(position) = location;
  ++chunks_[ChunkOf(position)].size;
  ++size_;
  end_ = position + 1;
  id_end_ = id + 1;
}

void LocationDeque::Erase(std::uint64_t id) {
  std::uint64_t* word = Find(id);
  TP_CHECK(word != nullptr);
  const std::uint64_t position = jumps_.empty() ? id : PositionOf(id);
  *word = 0;
  --chunks_[ChunkOf(position)].size;
  --size_;
  if (position == begin_) PassEmptyFront();
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
  while (jumps_.size() > 1 && jumps_[1].position <= begin_) jumps_.erase(jumps_.begin());
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
  for (std::size_t i = 1; i < jumps_.size(); ++i) {
    TP_CHECK(jumps_[i - 1].id < jumps_[i].id && jumps_[i - 1].position < jumps_[i].position);
  }
  if (empty()) return;
  TP_CHECK(*WordOf(begin_) != 0);
  TP_CHECK(*WordOf(end_ - 1) != 0 || size_ < end_ - begin_);
}

}  // namespace tidepool::storage
