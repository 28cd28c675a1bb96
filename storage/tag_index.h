// The index of one partition: hash -> location, in cache-line buckets, growing one bucket at a
// time.
//
// HashStore -> [TagIndex] -> a record's location in the log. Layout of buckets and slots: layout.h.
#pragma once

#include <absl/functional/function_ref.h>

#include <bit>
#include <cstdint>
#include <vector>

#include "storage/core_memory.h"
#include "storage/layout.h"
#include "storage/shared_directory.h"

namespace tidepool::storage {

struct TagIndexOptions {
  std::uint64_t buckets_initial = 64;
  std::uint64_t hash_mask = ~0ull;
  // Where direct readers find the index. Must outlive it. Null: they do not.
  SharedRoot* root = nullptr;
};

// Linear hashing: buckets below `split` have depth level + 1, the rest level. A bucket of depth d
// holds the hashes that agree in their low d bits, in itself and a chain of overflow buckets. A tag
// is the 24 hash bits from the bucket's tag shift on, so a split moves slots without reading a
// record. Each doubling takes one bit of a tag's discrimination (tag bits above the depth). Buckets
// with fewer than 16 left are rebuilt from the keys in the background, at the latest by the split
// that would leave fewer than 10. If a needed key is unavailable, the split waits, and chains get
// longer.
//
// Owner core only for changes; other processes may read buckets by the rules in layout.h. A slot's
// address is valid until the next Insert or background step. Growth stops, and chains get longer,
// while memory is used up.
//
// Invariants: size = occupied slots; every slot is in the chain of its hash's home; 8 or more bits
// of discrimination; the directory covers exactly 2^level + split buckets.
class TagIndex {
 public:
  // Reads the key behind a location and gives its hash (for rebuilding tags). False: the key cannot
  // be had now, as it is on a device.
  using HashReader = absl::FunctionRef<bool(std::uint64_t location, std::uint64_t* hash)>;

  TagIndex(CoreMemory& memory, const TagIndexOptions& options);
  ~TagIndex();
  TagIndex(const TagIndex&) = delete;
  TagIndex& operator=(const TagIndex&) = delete;

  // False: not even the first 64 buckets could be allocated; the index must not be used.
  bool valid() const { return valid_; }

  void PrefetchBucket(std::uint64_t hash) const {
    __builtin_prefetch(BucketAt(Home(hash & hash_mask_)));
    // g++ takes a function that only prefetches for a pure one and leaves its calls out.
    asm volatile("");
  }
  // Calls accept(location) for each slot whose tag agrees, until a call returns true. Null: no call
  // returned true. Defined in storage/tag_find.h.
  template <typename Accept>
  std::uint64_t* Find(std::uint64_t hash, Accept&& accept) const;

  // True if Insert of a new hash will succeed; allocates an overflow bucket ahead if it is needed.
  bool MakeRoom(std::uint64_t hash);
  // Adds a slot and splits at most one bucket. MakeRoom must have succeeded. `read` gives the hash
  // of a location whose tag must be rebuilt.
  void Insert(std::uint64_t hash, std::uint64_t location, HashReader read);
  // The record moved (update, compaction): the slot and its tag stay.
  static void Replace(std::uint64_t* slot, std::uint64_t location);
  // Empties the slot.
  void Erase(std::uint64_t* slot);

  std::uint64_t size() const { return size_; }
  std::uint64_t bucket_count() const { return low_mask_ + 1 + split_; }
  std::uint64_t bytes() const { return (bucket_count() + overflow_used_) * sizeof(Bucket); }
  std::uint64_t allocated_bytes() const { return allocated_bytes_; }
  std::uint64_t rebuilt_buckets() const { return rebuilt_buckets_; }

  // For iteration: a hash's position is its bit-reversed value. A bucket covers one interval of
  // positions, and a split only halves it.
  std::uint64_t PositionOf(std::uint64_t hash) const;
  // The bucket that covers `position`, and the first position after it (0: it is the last bucket).
  std::uint64_t BucketOfPosition(std::uint64_t position, std::uint64_t* next) const;
  // Calls visit(location) for all slots of a home bucket's chain.
  void VisitChain(std::uint64_t bucket, absl::FunctionRef<void(std::uint64_t)> visit) const;

  // Empties a chain whose records were freed. For the drop of a partition: readers may no longer
  // follow it.
  void ClearChain(std::uint64_t bucket);

  // Splits buckets ahead of their records, until there are enough for `records` or `done()`; true:
  // more to do. False also when memory is used up: then it grows with its records, as ever.
  bool GrowSlice(std::uint64_t records, HashReader read, absl::FunctionRef<bool()> done);

  // Whether tags are due to be rebuilt in the background.
  bool RebuildDue() const;
  // Rebuilds tags until `done()`, or up to a bucket for which `read` fails. That bucket comes first
  // the next time; the buckets behind it are read meanwhile, so that all their keys can be fetched
  // together. True: more to do.
  bool RebuildSlice(HashReader read, absl::FunctionRef<bool()> done);

  void CheckInvariants(HashReader read) const;

 private:
  std::uint64_t Home(std::uint64_t hash) const {
    // Without a branch, which the processor could not predict: a further bit if the bucket was
    // split.
    const std::uint64_t low = hash & low_mask_;
    const std::uint64_t was_split = (low - split_) >> 63;
    return low | (hash & (was_split << level_));
  }
  // Each entry is the address that bucket 0 would have if its piece went on downwards.
  Bucket* BucketAt(std::uint64_t bucket) const {
    return reinterpret_cast<Bucket*>(pieces_[places_.PieceOf(bucket)] + bucket * sizeof(Bucket));
  }
  Bucket* Linked(std::uint64_t header) const {
    return reinterpret_cast<Bucket*>(memory_.At(bucket::Link(header) * sizeof(Bucket)));
  }
  std::uint64_t LinkTo(const Bucket* overflow) const {
    return memory_.OffsetOf(overflow) / sizeof(Bucket);
  }

  void VisitChainOf(const Bucket* home, absl::FunctionRef<void(std::uint64_t)> visit) const;
  void ReadAhead(std::uint64_t from, HashReader read) const;
  bool EnsureBucketMemory(std::uint64_t bucket);
  void ShowGrowth();
  bool ReserveOverflow(std::uint64_t count);
  Bucket* TakeOverflow();
  void GiveOverflow(Bucket* overflow);
  void PlaceSlot(Bucket* home, std::uint64_t slot);
  bool SplitOne(HashReader read);
  void Distribute(Bucket* home, Bucket* target, unsigned decisive_tag_bit);
  // False: a key could not be had, and nothing has changed.
  bool RebuildChain(Bucket* home, unsigned tag_shift, HashReader read);

  CoreMemory& memory_;
  const std::uint64_t hash_mask_;
  const BucketPlaces places_;
  std::uint64_t low_mask_ = 0;  // 2^level - 1.
  std::uint64_t split_ = 0;
  unsigned level_ = 0;
  std::uint64_t size_ = 0;
  std::uint64_t grow_at_ = 0;  // The size at which the next split is due.
  std::vector<std::uintptr_t> pieces_;
  SharedRoot* const root_;
  SharedDirectory directory_;  // The pieces, for direct readers.
  bool valid_ = false;

  // Overflow buckets: a free list through their headers' links, and a chunk used from its front.
  struct Chunk {
    std::uint64_t offset;
    std::uint64_t bytes;
  };
  std::vector<Chunk> overflow_chunks_;
  std::uint64_t overflow_next_ = 0;
  std::uint64_t overflow_end_ = 0;
  std::uint64_t overflow_free_ = 0;  // Link of the first; 0: none.
  std::uint64_t overflow_free_count_ = 0;
  std::uint64_t overflow_used_ = 0;

  std::uint64_t allocated_bytes_ = 0;
  unsigned oldest_shift_ = 0;  // No bucket's tag shift is smaller.
  bool rebuilding_ = false;
  unsigned rebuild_shift_ = 0;
  std::uint64_t rebuild_next_ = 0;
  std::uint64_t rebuilt_buckets_ = 0;
  std::vector<std::uint64_t> hashes_;  // Of the rebuilt chain.
};

}  // namespace tidepool::storage
