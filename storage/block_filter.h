// A Bloom filter of split blocks: the data of a bloom partition, and the prefilter of other kinds.
//
// daemon's handlers -> partition -> [BlockFilter] -> split_block_insert.h; sizes and estimates:
// proto/base/filter_shape.h. The bits of a value are the same for everybody who reads them
// (proto/base/split_block.h).
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "proto/base/bytes.h"
#include "proto/base/filter_shape.h"
#include "proto/base/result.h"
#include "storage/core_memory.h"
#include "storage/shared_directory.h"

namespace tidepool::storage {

// Creation takes all memory, so no insert is ever refused. A block of 64 KiB is zeroed by the first
// insert into it (some 10 us) or by a background slice, whichever comes first: creation of a filter
// of any size costs no pause. Until then reads see a shared block of zeros.
//
// Owner core only; other processes may read the blocks: a lane is written whole, and no bit is ever
// cleared. `hash` is always KeyHash(value).
//
// Insert-and-tell is atomic because a single core owns the filter: at most one inserter of a value
// gets "new", and exactly one unless the filter errs. An operation costs one cache miss.
//
// Invariants: bits_set = the bits set in all blocks; a block without inserts is zero.
//
// Not suited for deletes (make another filter) or an unpredictable number of values: the shape is
// fixed, and the error rate grows with the inserts.
class BlockFilter {
 public:
  // `memory` must outlive the filter, and also `root`, where direct readers find it; null: no
  // direct readers. Errors: kResourceExhausted (no memory was taken), kInvalidArgument (a shape
  // that ShapeOfFilter does not give).
  static Result<std::unique_ptr<BlockFilter>> Create(FilterShape shape, CoreMemory& memory,
                                                     SharedRoot* root = nullptr);
  ~BlockFilter();
  BlockFilter(const BlockFilter&) = delete;
  BlockFilter& operator=(const BlockFilter&) = delete;

  FilterShape shape() const { return shape_; }

  // For callers that have other work between: prefetch about 16, then apply.
  void Prefetch(std::uint64_t hash) const {
    __builtin_prefetch(At(SplitBlockOf(hash, shape_.split_blocks)), 1);
    // g++ takes a function that only prefetches for a pure one and leaves its calls out.
    asm volatile("");
  }
  // Inserts a value. True: the value is new, and no other caller gets or got this answer. False: it
  // was inserted before, or the filter errs.
  bool InsertAndTell(std::uint64_t hash);
  // False: the value was surely never inserted.
  bool Contains(std::uint64_t hash) const;

  // Handles many values, with prefetch: over twice as fast. `is_new` and `found` have room for as
  // many answers. A repeated value in `hashes` is new at most at its first place.
  void InsertAndTell(std::span<const std::uint64_t> hashes, bool* is_new);
  void Contains(std::span<const std::uint64_t> hashes, bool* found) const;

  // ---- Statistics, from the number of bits set: no walk.
  std::uint64_t bits_set() const { return bits_set_; }
  double EstimatedItems() const { return tidepool::EstimatedItems(shape_, bits_set_); }
  double EstimatedFalsePositiveRate() const {
    return tidepool::EstimatedFalsePositiveRate(shape_, bits_set_);
  }
  std::uint64_t allocated_bytes() const { return allocated_bytes_; }

  // ---- Blocks, for union, download and durability: `shape().bytes()` cut into equal pieces.
  std::uint64_t block_count() const { return blocks_.size(); }
  std::uint64_t block_bytes() const {
    return split_block_mask_ * kSplitBlockBytes + kSplitBlockBytes;
  }
  // Valid until the filter is freed; bits may be set meanwhile.
  Bytes Block(std::uint64_t block) const { return {blocks_[block], block_bytes()}; }
  // Where other processes find the block in the node's arenas; 0: it has no bits yet.
  std::uint64_t BlockOffset(std::uint64_t block) const {
    return blocks_[block] == Untouched() ? 0 : offsets_[block];
  }
  // Sets the bits that are set in `bits`, which are block_bytes() of a filter of the same shape.
  // About 10 us per block.
  void UnionBlock(std::uint64_t block, Bytes bits);
  // Unites a part of a block, which begins at byte `at` of the filter; both multiples of 8.
  void UnionPart(std::uint64_t at, Bytes bits);
  // Returns the present content of such a part.
  Bytes Part(std::uint64_t at, std::uint64_t bytes) const {
    return Block(at / block_bytes()).subspan(at % block_bytes(), bytes);
  }
  // Where the bits of a value begin.
  std::uint64_t OffsetOf(std::uint64_t hash) const {
    return SplitBlockOf(hash, shape_.split_blocks) * kSplitBlockBytes;
  }
  // Unites all blocks of `other` at once: for small filters; a core unites large filters block by
  // block. Errors: kFailedPrecondition (the shapes differ: no change).
  Status Union(const BlockFilter& other);

  // ---- Background work.
  // Zeroes blocks ahead of their first insert until `done()`. True: more to do.
  bool TouchSlice(absl::FunctionRef<bool()> done);
  // Gives memory back until `done()`; after the first call only FreeSlice and the destructor, which
  // frees the rest, may be called. True: more to do.
  bool FreeSlice(absl::FunctionRef<bool()> done);

  // For tests; ends the program at the first broken invariant.
  void CheckInvariants() const;

 private:
  BlockFilter(FilterShape shape, CoreMemory& memory, SharedRoot* root);
  bool Allocate();
  void FreeLast();
  std::byte* Touch(std::uint64_t block);
  // All of it is zero: it may be read and written.
  void Open(std::uint64_t block);
  static std::byte* Untouched() { return untouched_block_; }

  std::byte* At(std::uint64_t split_block) const {
    return blocks_[split_block >> split_block_shift_] +
           (split_block & split_block_mask_) * kSplitBlockBytes;
  }

  // The value's split block in memory that may be written.
  std::byte* WritableAt(std::uint64_t hash) {
    const std::uint64_t split_block = SplitBlockOf(hash, shape_.split_blocks);
    const std::uint64_t block = split_block >> split_block_shift_;
    std::byte* begin = blocks_[block];
    if (begin == Untouched()) [[unlikely]]
      begin = Touch(block);
    return begin + (split_block & split_block_mask_) * kSplitBlockBytes;
  }

  // Content of every block before it is touched. Never written.
  alignas(64) static std::byte untouched_block_[limits::kFilterBlockBytes];

  const FilterShape shape_;
  CoreMemory& memory_;
  int split_block_shift_ = 0;           // log2 of the split blocks in a block,
  std::uint64_t split_block_mask_ = 0;  // and their number less one.
  std::uint64_t bits_set_ = 0;
  std::vector<std::byte*> blocks_;
  // Node offsets of the blocks' own memory. The first `whole_blocks_` were cut from whole blocks of
  // the core's memory, the rest are chunks.
  std::vector<std::uint64_t> offsets_;
  std::uint64_t whole_blocks_ = 0;
  SharedDirectory directory_;  // Of blocks that are touched, for direct readers.
  std::uint64_t allocated_bytes_ = 0;
  // TouchSlice: the block that is next, and how much of it is zeroed already.
  std::uint64_t touch_next_ = 0;
  std::uint64_t touch_bytes_ = 0;
};

}  // namespace tidepool::storage
