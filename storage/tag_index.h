// The index of one partition: hash -> location, in cache-line buckets, growing one bucket at a time.
//
// HashStore -> [TagIndex] -> a record's location in the log. Layout of buckets and slots: layout.h.
#pragma once

#include <absl/functional/function_ref.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <vector>

#include "storage/core_memory.h"
#include "storage/layout.h"

namespace tidepool::storage {

struct TagIndexOptions {
  std::uint64_t buckets_initial = 64;
  std::uint64_t hash_mask = ~0ull;
};

// Linear hashing: buckets below `split` have depth level + 1, the others level; a bucket of depth d
// holds the hashes that agree in their low d bits, in itself and a chain of overflow buckets. A tag is
// the 24 hash bits from the bucket's tag shift on, so a split moves slots without reading a record.
// Each doubling takes one bit of a tag's discrimination (tag bits above the depth): buckets with fewer
// than 16 left are rebuilt from the keys in the background, at the latest by the split that would
// leave fewer than 10.
//
// Owner core only for changes; other processes may read buckets by the rules in layout.h. A slot's
// address is valid until the next Insert or background step. Growth stops, and chains get longer,
// while memory is used up.
//
// Invariants: size = occupied slots; every slot is in the chain of its hash's home; 8 or more bits of
// discrimination; the directory covers exactly 2^level + split buckets.
class TagIndex {
 public:
  // Reads the key behind a location and gives its hash (for rebuilding tags).
  using HashReader = absl::FunctionRef<std::uint64_t(std::uint64_t location)>;

  TagIndex(CoreMemory& memory, const TagIndexOptions& options);
  ~TagIndex();
  TagIndex(const TagIndex&) = delete;
  TagIndex& operator=(const TagIndex&) = delete;

  // False: not even the first 64 buckets could be allocated; the index must not be used.
  bool valid() const { return bucket_count() != 0; }

  void PrefetchBucket(std::uint64_t hash) const {
    __builtin_prefetch(BucketAt(Home(hash & hash_mask_)));
  }
  // Calls accept(location) for each slot whose tag agrees, until one says true. Null: none.
  template <typename Accept>
  std::uint64_t* Find(std::uint64_t hash, Accept&& accept) const;

  // True if Insert of a new hash will succeed; allocates an overflow bucket ahead if it is needed.
  bool MakeRoom(std::uint64_t hash);
  // Adds a slot and splits at most one bucket. MakeRoom must have succeeded. `read` gives the hash of
  // a location whose tag must be made again.
  void Insert(std::uint64_t hash, std::uint64_t location, HashReader read);
  // The record moved (update, compaction): the slot and its tag stay.
  static void Replace(std::uint64_t* slot, std::uint64_t location);
  // Empties the slot.
  void Erase(std::uint64_t* slot);

  std::uint64_t size() const { return size_; }
  std::uint64_t bucket_count() const { return (1ull << level_) * (level_ != 0) + split_; }
  std::uint64_t bytes() const { return (bucket_count() + overflow_used_) * sizeof(Bucket); }
  std::uint64_t allocated_bytes() const { return allocated_bytes_; }
  std::uint64_t overflow_count() const { return overflow_used_; }
  std::uint64_t rebuilt_buckets() const { return rebuilt_buckets_; }

  // The bucket that holds position `reversed` of the bit-reversed hash space, and the first position
  // after it (0: it is the last). For iteration; a bucket covers one interval, and splits only halve it.
  std::uint64_t BucketOfPosition(std::uint64_t reversed, std::uint64_t* next) const;
  // Calls visit(location) for all slots of a home bucket's chain.
  void VisitChain(std::uint64_t bucket, absl::FunctionRef<void(std::uint64_t)> visit) const;

  // Rebuilds tags until `done()`; true: more to do.
  bool RebuildSlice(HashReader read, absl::FunctionRef<bool()> done);

  void CheckInvariants(HashReader read) const;

 private:
  static constexpr std::uint64_t kSmallUnit = 64;  // Buckets of the first chunk: 4 KiB.

  std::uint64_t Home(std::uint64_t hash) const {
    const std::uint64_t low = hash & low_mask_;
    return low < split_ ? hash & (low_mask_ << 1 | 1) : low;
  }
  Bucket* BucketAt(std::uint64_t bucket) const {
    if (bucket >= block_buckets_) {
      return reinterpret_cast<Bucket*>(blocks_[bucket >> block_shift_]) +
             (bucket & (block_buckets_ - 1));
    }
    const int small = std::bit_width(bucket / kSmallUnit);
    return small_[static_cast<std::size_t>(small)] + (bucket - small_begin(small));
  }
  static std::uint64_t small_begin(int small) {
    return small == 0 ? 0 : kSmallUnit << (small - 1);
  }
  Bucket* Linked(std::uint64_t header) const {
    return reinterpret_cast<Bucket*>(memory_.At(bucket::Link(header) * sizeof(Bucket)));
  }

  CoreMemory& memory_;
  const std::uint64_t hash_mask_;
  std::uint64_t block_buckets_;
  int block_shift_;
  std::uint64_t low_mask_ = 0;
  std::uint64_t split_ = 0;
  unsigned level_ = 0;
  std::uint64_t size_ = 0;
  std::array<Bucket*, 20> small_{};
  std::vector<std::byte*> blocks_;
  std::uint64_t overflow_used_ = 0;
  std::uint64_t allocated_bytes_ = 0;
  std::uint64_t rebuilt_buckets_ = 0;
};

}  // namespace tidepool::storage
