// Memory, union and checks of a Bloom filter; its operations stand in the header.
#include "storage/block_filter.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "proto/base/check.h"
#include "storage/split_block_insert.h"

namespace tidepool::storage {

namespace {

// As many cache misses as a core has under way at a time, roughly.
constexpr std::size_t kStage = 16;

// Calls apply(begin, places) for stages of the operations 0 .. count - 1, each after the places of
// the next stage, which locate(i) gives, were prefetched: a quarter faster than stage by stage.
template <typename Place, typename Locate, typename Apply>
void InStages(std::size_t count, Locate&& locate, Apply&& apply) {
  std::array<Place, kStage> places[2];
  const auto prefetch = [&](std::size_t begin) {
    std::array<Place, kStage>& stage = places[begin / kStage % 2];
    const std::size_t end = std::min(begin + kStage, count);
    for (std::size_t i = begin; i < end; ++i) {
      stage[i - begin] = locate(i);
      __builtin_prefetch(stage[i - begin]);
    }
  };
  prefetch(0);
  for (std::size_t begin = 0; begin < count; begin += kStage) {
    prefetch(begin + kStage);
    apply(begin, std::span(places[begin / kStage % 2].data(), std::min(kStage, count - begin)));
  }
}

}  // namespace

alignas(64) std::byte BlockFilter::untouched_block_[limits::kFilterBlockBytes];

Result<std::unique_ptr<BlockFilter>> BlockFilter::Create(FilterShape shape, CoreMemory& memory,
                                                         SharedRoot* root) {
  if (!IsFilterBytes(shape.bytes())) {
    return Status(StatusCode::kInvalidArgument,
                  "a Bloom filter of " + std::to_string(shape.split_blocks) +
                      " split blocks is none that this version makes");
  }
  std::unique_ptr<BlockFilter> filter(new BlockFilter(shape, memory, root));
  if (!filter->Allocate()) {
    return Status(StatusCode::kResourceExhausted,
                  "no memory for a Bloom filter of " + std::to_string(shape.bytes()) +
                      " bytes; this node has " +
                      std::to_string(memory.BlocksAvailable() * memory.block_bytes()) +
                      " bytes left",
                  "expect fewer items, accept a higher rate, drop what is not needed, or start kvd "
                  "with more --memory");
  }
  return filter;
}

BlockFilter::BlockFilter(FilterShape shape, CoreMemory& memory, SharedRoot* root)
    : shape_(shape), memory_(memory), directory_(memory, root) {
  const std::uint64_t block_bytes =
      std::min({shape.bytes(), std::uint64_t{limits::kFilterBlockBytes}, memory.block_bytes()});
  split_block_mask_ = block_bytes / kSplitBlockBytes - 1;
  split_block_shift_ = std::countr_zero(block_bytes / kSplitBlockBytes);
  const std::uint64_t count = shape.bytes() / block_bytes;
  const std::uint64_t per_whole = memory.block_bytes() / block_bytes;
  whole_blocks_ = count / per_whole * per_whole;
  blocks_.assign(count, Untouched());
  offsets_.reserve(count);
}

BlockFilter::~BlockFilter() {
  while (!offsets_.empty()) FreeLast();
}

bool BlockFilter::Allocate() {
  // Asked before: a filter that is far too large must not first take all memory of other users.
  if (shape_.bytes() / memory_.block_bytes() > memory_.BlocksAvailable()) return false;
  // Of 16 GiB and more the list does not fit a block: it is read through the owner only.
  if (!directory_.Reserve(blocks_.size())) directory_.Hide();
  while (offsets_.size() < blocks_.size()) {
    if (offsets_.size() < whole_blocks_) {
      const std::uint64_t whole = memory_.AllocateBlock(MemoryClass::kUser);
      if (whole == 0) return false;
      for (std::uint64_t at = 0; at < memory_.block_bytes(); at += block_bytes()) {
        offsets_.push_back(whole + at);
      }
      allocated_bytes_ += memory_.block_bytes();
    } else {
      const std::uint64_t chunk = memory_.AllocateChunk(block_bytes());
      if (chunk == 0) return false;
      offsets_.push_back(chunk);
      allocated_bytes_ += block_bytes();
    }
  }
  return true;
}

void BlockFilter::FreeLast() {
  if (offsets_.size() > whole_blocks_) {
    memory_.FreeChunk(offsets_.back(), block_bytes());
    offsets_.pop_back();
    allocated_bytes_ -= block_bytes();
    return;
  }
  const std::uint64_t per_whole = memory_.block_bytes() / block_bytes();
  const std::uint64_t first = offsets_.size() - per_whole;
  memory_.FreeBlock(offsets_[first]);
  offsets_.resize(first);
  allocated_bytes_ -= memory_.block_bytes();
}

std::byte* BlockFilter::Touch(std::uint64_t block) {
  std::byte* const memory = memory_.At(offsets_[block]);
  std::memset(memory, 0, block_bytes());
  Open(block);
  return memory;
}

void BlockFilter::Open(std::uint64_t block) {
  blocks_[block] = memory_.At(offsets_[block]);
  TP_CHECK(directory_.Set(block, offsets_[block]));  // Its room is reserved.
}

bool BlockFilter::InsertAndTell(std::uint64_t hash) {
  const unsigned added = split_block::Insert(WritableAt(hash), hash);
  bits_set_ += added;
  return added != 0;
}

bool BlockFilter::Contains(std::uint64_t hash) const {
  return split_block::Contains(At(SplitBlockOf(hash, shape_.split_blocks)), hash);
}

void BlockFilter::InsertAndTell(std::span<const std::uint64_t> hashes, bool* is_new) {
  InStages<std::byte*>(
      hashes.size(), [&](std::size_t i) { return WritableAt(hashes[i]); },
      [&](std::size_t begin, std::span<std::byte* const> at) {
        bits_set_ += split_block::InsertMany(at, hashes.data() + begin, is_new + begin);
      });
}

void BlockFilter::Contains(std::span<const std::uint64_t> hashes, bool* found) const {
  InStages<const std::byte*>(
      hashes.size(),
      [&](std::size_t i) { return At(SplitBlockOf(hashes[i], shape_.split_blocks)); },
      [&](std::size_t begin, std::span<const std::byte* const> at) {
        split_block::ContainsMany(at, hashes.data() + begin, found + begin);
      });
}

void BlockFilter::UnionBlock(std::uint64_t block, Bytes bits) {
  TP_CHECK(bits.size() == block_bytes());
  if (bits.data() == blocks_[block]) return;  // Of a filter with itself, or both untouched.
  UnionPart(block * block_bytes(), bits);
}

void BlockFilter::UnionPart(std::uint64_t begin, Bytes bits) {
  const std::uint64_t block = begin / block_bytes();
  TP_CHECK(block < blocks_.size());
  TP_CHECK(begin % block_bytes() + bits.size() <= block_bytes());
  std::byte* const to =
      (blocks_[block] == Untouched() ? Touch(block) : blocks_[block]) + begin % block_bytes();
  for (std::size_t at = 0; at < bits.size(); at += sizeof(std::uint64_t)) {
    const auto before = LoadUnaligned<std::uint64_t>(to + at);
    const std::uint64_t added = LoadUnaligned<std::uint64_t>(bits.data() + at) & ~before;
    if (added == 0) continue;
    bits_set_ += static_cast<std::uint64_t>(std::popcount(added));
    StoreUnaligned(to + at, before | added);
  }
}

Status BlockFilter::Union(const BlockFilter& other) {
  if (shape_ != other.shape_ || block_bytes() != other.block_bytes()) {
    return Status(StatusCode::kFailedPrecondition,
                  "filters of " + std::to_string(shape_.bytes()) + " and " +
                      std::to_string(other.shape_.bytes()) + " bytes cannot be united",
                  "make both for the same expected items, rate and partitions");
  }
  for (std::uint64_t block = 0; block < block_count(); ++block) {
    if (other.BlockOffset(block) != 0) UnionBlock(block, other.Block(block));
  }
  return OkStatus();
}

bool BlockFilter::TouchSlice(absl::FunctionRef<bool()> done) {
  // By pages: a whole block of fresh memory may take the time of a slice.
  constexpr std::uint64_t kStepBytes = 4096;
  for (; touch_next_ < blocks_.size(); ++touch_next_, touch_bytes_ = 0) {
    std::byte* const memory = memory_.At(offsets_[touch_next_]);
    while (blocks_[touch_next_] == Untouched()) {
      if (done()) return true;
      std::memset(memory + touch_bytes_, 0, std::min(kStepBytes, block_bytes()));
      touch_bytes_ += kStepBytes;
      if (touch_bytes_ >= block_bytes()) Open(touch_next_);
    }
  }
  return false;
}

bool BlockFilter::FreeSlice(absl::FunctionRef<bool()> done) {
  while (!offsets_.empty()) {
    if (done()) return true;
    FreeLast();
  }
  return false;
}

void BlockFilter::CheckInvariants() const {
  TP_CHECK(offsets_.size() == blocks_.size());
  TP_CHECK(allocated_bytes_ == shape_.bytes());
  TP_CHECK(block_count() * block_bytes() == shape_.bytes());
  std::uint64_t bits = 0;
  for (std::uint64_t block = 0; block < block_count(); ++block) {
    TP_CHECK(blocks_[block] == Untouched() || blocks_[block] == memory_.At(offsets_[block]));
    const Bytes bytes = Block(block);
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
      bits += static_cast<std::uint64_t>(
          std::popcount(LoadUnaligned<std::uint64_t>(bytes.data() + at)));
    }
  }
  TP_CHECK(bits == bits_set_);
}

}  // namespace tidepool::storage
