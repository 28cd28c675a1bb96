// Blocks from the pool with the reserve's bookkeeping, and a buddy allocator for what is smaller.
#include "storage/core_memory.h"

#include <algorithm>
#include <bit>

#include "proto/base/check.h"

namespace tidepool::storage {
namespace {

// Touched blocks kept at hand: a block for the log, a block for the index.
constexpr std::uint64_t kReadyBlocks = 2;

}  // namespace

CoreMemory::CoreMemory(ArenaPool& pool, std::uint64_t reserve_blocks)
    : pool_(pool),
      block_bytes_(pool.block_bytes()),
      base_(pool.base()),
      reserve_blocks_(reserve_blocks),
      reserve_promised_(pool.Promise(reserve_blocks)),
      orders_(std::countr_zero(block_bytes_ / kChunkBytesMin)) {
  ready_.reserve(kReadyBlocks);
}

CoreMemory::~CoreMemory() {
  DropReady();
  TP_CHECK(buddies_.empty());
  TP_CHECK(blocks_held_ == 0);
  if (reserve_promised_) pool_.Unpromise(reserve_blocks_);
}

std::uint64_t CoreMemory::TakeReserved(Reservation& from) {
  const std::uint64_t block = from.Take();
  if (block != 0) ++blocks_held_;
  return block;
}

void CoreMemory::DropReady() {
  for (; !ready_.empty(); ready_.pop_back()) ReturnBlock(ready_.back());
}

std::uint64_t CoreMemory::AllocateBlock(MemoryClass memory_class) {
  if (reservation_ != nullptr && memory_class == MemoryClass::kUser) [[unlikely]] {
    if (const std::uint64_t block = TakeReserved(*reservation_); block != 0) return block;
  }
  if (!ready_.empty()) {
    const std::uint64_t block = ready_.back();
    ready_.pop_back();
    return block;
  }
  std::uint64_t block = pool_.Allocate(false);
  if (block == 0 && memory_class == MemoryClass::kReserve && reserve_drawn_ < reserve_blocks_) {
    block = pool_.Allocate(true);
    if (block != 0) ++reserve_drawn_;
  }
  if (block != 0) ++blocks_held_;
  return block;
}

void CoreMemory::FreeBlock(std::uint64_t node_offset) { ReturnBlock(node_offset); }

void CoreMemory::ReturnBlock(std::uint64_t node_offset) {
  TP_CHECK(blocks_held_ > 0);
  // The reserve is made whole before anybody else gets memory.
  pool_.Free(node_offset, reserve_drawn_ > 0);
  if (reserve_drawn_ > 0) --reserve_drawn_;
  --blocks_held_;
}

int CoreMemory::AllocateIn(std::size_t index, int order) {
  if (longest_[index] < order + 1) return -1;
  Buddy& buddy = buddies_[index];
  std::size_t node = 1;
  for (int at = orders_; at > order; --at) {
    // The smaller of the two children that fit, so that large runs stay whole.
    const std::size_t left = node * 2;
    const int in_left = buddy.longest[left];
    const int in_right = buddy.longest[left + 1];
    const bool take_left = in_left > order && (in_right <= order || in_left <= in_right);
    node = take_left ? left : left + 1;
  }
  TP_DCHECK(buddy.longest[node] == order + 1);
  buddy.longest[node] = 0;
  const auto unit = static_cast<int>((node << order) - (std::size_t{1} << orders_));
  for (node /= 2; node >= 1; node /= 2) {
    buddy.longest[node] = std::max(buddy.longest[node * 2], buddy.longest[node * 2 + 1]);
  }
  longest_[index] = buddy.longest[1];
  return unit;
}

std::uint64_t CoreMemory::AllocateChunk(std::uint64_t bytes) {
  TP_CHECK(std::has_single_bit(bytes));
  TP_CHECK(bytes >= kChunkBytesMin);
  TP_CHECK(bytes <= block_bytes_);
  const int order = std::countr_zero(bytes / kChunkBytesMin);
  for (std::size_t i = buddies_.size(); i-- > 0;) {
    const int unit = AllocateIn(i, order);
    if (unit < 0) continue;
    chunk_bytes_used_ += bytes;
    return buddies_[i].block + static_cast<std::uint64_t>(unit) * kChunkBytesMin;
  }
  const std::uint64_t block = AllocateBlock(MemoryClass::kUser);
  if (block == 0) return 0;
  Buddy buddy{block, std::vector<std::uint8_t>(std::size_t{2} << orders_)};
  for (std::size_t node = 1; node < buddy.longest.size(); ++node) {
    buddy.longest[node] = static_cast<std::uint8_t>(orders_ + 2 - std::bit_width(node));
  }
  longest_.push_back(buddy.longest[1]);
  buddy_of_block_[block] = buddies_.size();
  buddies_.push_back(std::move(buddy));
  const int unit = AllocateIn(buddies_.size() - 1, order);
  TP_CHECK(unit == 0);
  chunk_bytes_used_ += bytes;
  return block;
}

void CoreMemory::FreeChunk(std::uint64_t node_offset, std::uint64_t bytes) {
  const std::uint64_t block = node_offset / block_bytes_ * block_bytes_;
  const auto found = buddy_of_block_.find(block);
  TP_CHECK(found != buddy_of_block_.end());
  const std::size_t index = found->second;
  Buddy* const buddy = &buddies_[index];
  const int order = std::countr_zero(bytes / kChunkBytesMin);
  const std::uint64_t unit = (node_offset - block) / kChunkBytesMin;
  std::size_t node = (unit + (std::uint64_t{1} << orders_)) >> order;
  TP_CHECK(buddy->longest[node] == 0);
  buddy->longest[node] = static_cast<std::uint8_t>(order + 1);
  int whole = order + 1;
  for (node /= 2; node >= 1; node /= 2, ++whole) {
    const int left = buddy->longest[node * 2];
    const int right = buddy->longest[node * 2 + 1];
    buddy->longest[node] = static_cast<std::uint8_t>(
        left == whole && right == whole ? whole + 1 : std::max(left, right));
  }
  TP_CHECK(chunk_bytes_used_ >= bytes);
  chunk_bytes_used_ -= bytes;
  longest_[index] = buddy->longest[1];
  if (buddy->longest[1] == orders_ + 1) {
    // The last one takes its place.
    buddy_of_block_[buddies_.back().block] = index;
    buddy_of_block_.erase(block);
    std::swap(buddies_[index], buddies_.back());
    longest_[index] = longest_.back();
    buddies_.pop_back();
    longest_.pop_back();
    ReturnBlock(block);
  }
}

bool CoreMemory::KeepReady() {
  // Blocks at hand are kept from other cores: only while there is plenty, these included, or taking
  // one would be the reason to give it back.
  const bool plenty =
      pool_.BlocksAvailable() + ready_.size() > pool_.block_count_max() / 16 + kReadyBlocks;
  if (!plenty || pool_.room_waits()) {
    DropReady();
    return false;
  }
  if (ready_.size() >= kReadyBlocks) return false;
  const std::uint64_t block = pool_.Allocate(false);
  if (block == 0) return false;
  ++blocks_held_;
  ready_.insert(ready_.begin(), block);
  return ready_.size() < kReadyBlocks;
}

}  // namespace tidepool::storage
