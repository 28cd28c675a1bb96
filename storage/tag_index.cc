// Growth of the index: splits, overflow buckets, tag rebuilds. Find is in the header.
#include "storage/tag_index.h"

#include <algorithm>
#include <atomic>

#include "proto/base/check.h"
#include "storage/match_level.h"

namespace tidepool::storage {
namespace {

// Records per bucket at which the next split is due: 75 % of 7 slots. About 17 % of the buckets
// then have an overflow bucket, 14.4 bytes of index per record in all; fuller costs longer chains.
constexpr std::uint64_t kFillNumerator = 21;
constexpr std::uint64_t kFillDenominator = 4;

// Doublings after which tags are rebuilt: in the background (16 of 24 bits left), and by the split
// itself where that did not keep up (10 left: at 5 slots a bucket 0.005 false candidates per miss).
constexpr unsigned kRebuildAfter = 8;
constexpr unsigned kRebuildAtSplit = 14;
static_assert(kTagBits - kRebuildAtSplit >= 8);

constexpr std::uint64_t kOverflowChunkBytesMax = 256 * 1024;

MatchLevel BestMatchLevel() {
#ifdef TIDEPOOL_MATCH_X86
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return MatchLevel::kAvx512;
  if (__builtin_cpu_supports("avx2")) return MatchLevel::kAvx2;
  return MatchLevel::kSse2;
#else
  return MatchLevel::kScalar;
#endif
}

void StoreRelaxed(std::uint64_t& word, std::uint64_t value) {
  std::atomic_ref<std::uint64_t>(word).store(value, std::memory_order_relaxed);
}

void StoreRelease(std::uint64_t& word, std::uint64_t value) {
  std::atomic_ref<std::uint64_t>(word).store(value, std::memory_order_release);
}

// An empty bucket where readers may still be: each word whole.
void StoreBucket(Bucket* at, std::uint64_t header) {
  for (std::uint64_t& slot : at->slots) StoreRelaxed(slot, 0);
  StoreRelaxed(at->header, header);
}

// Readers that meet an odd header, or find it changed afterwards, begin again.
void MakeOdd(Bucket* home) {
  TP_DCHECK(!bucket::InFlux(home->header));
  StoreRelease(home->header, home->header + bucket::kSequenceStep);
  std::atomic_thread_fence(std::memory_order_release);
}

void MakeEven(Bucket* home) {
  TP_DCHECK(bucket::InFlux(home->header));
  StoreRelease(home->header, home->header + bucket::kSequenceStep);
}

}  // namespace

MatchLevel g_match_level = BestMatchLevel();

MatchLevel SetMatchLevel(MatchLevel level) {
  g_match_level = std::min(level, BestMatchLevel());
  return g_match_level;
}

TagIndex::TagIndex(CoreMemory& memory, const TagIndexOptions& options)
    : memory_(memory),
      hash_mask_(options.hash_mask),
      places_(memory.block_bytes()),
      root_(options.root),
      directory_(memory, options.root) {
  const std::uint64_t wanted =
      std::bit_ceil(std::max(options.buckets_initial, BucketPlaces::kSmallUnit));
  std::uint64_t have = 0;
  while (have < wanted && EnsureBucketMemory(have)) {
    have += places_.PieceBytes(places_.PieceOf(have)) / sizeof(Bucket);
  }
  if (have < BucketPlaces::kSmallUnit) return;
  const std::uint64_t buckets = std::bit_floor(std::min(have, wanted));
  level_ = static_cast<unsigned>(std::countr_zero(buckets));
  low_mask_ = buckets - 1;
  oldest_shift_ = level_;
  grow_at_ = buckets * kFillNumerator / kFillDenominator;
  for (std::uint64_t i = 0; i < buckets; ++i) {
    *BucketAt(i) = Bucket{bucket::Make(0, level_, level_, 0), {}};
  }
  ShowGrowth();
  valid_ = true;
}

TagIndex::~TagIndex() {
  for (std::size_t piece = 0; piece < pieces_.size(); ++piece) {
    const std::uint64_t offset = memory_.OffsetOf(BucketAt(places_.PieceBegin(piece)));
    if (piece < places_.small_pieces) {
      memory_.FreeChunk(offset, places_.PieceBytes(piece));
    } else {
      memory_.FreeBlock(offset);
    }
  }
  for (const Chunk& chunk : overflow_chunks_) memory_.FreeChunk(chunk.offset, chunk.bytes);
}

bool TagIndex::EnsureBucketMemory(std::uint64_t bucket) {
  const std::size_t piece = places_.PieceOf(bucket);
  if (piece < pieces_.size()) return true;
  TP_CHECK(pieces_.size() == piece);
  const std::uint64_t bytes = places_.PieceBytes(piece);
  const std::uint64_t offset = piece < places_.small_pieces
                                   ? memory_.AllocateChunk(bytes)
                                   : memory_.AllocateBlock(MemoryClass::kUser);
  if (offset == 0) return false;
  if (!directory_.Set(piece, offset)) {
    piece < places_.small_pieces ? memory_.FreeChunk(offset, bytes) : memory_.FreeBlock(offset);
    return false;
  }
  pieces_.push_back(reinterpret_cast<std::uintptr_t>(memory_.At(offset)) -
                    places_.PieceBegin(piece) * sizeof(Bucket));
  allocated_bytes_ += bytes;
  return true;
}

void TagIndex::ShowGrowth() {
  if (root_ != nullptr) StoreRelease(root_->growth, growth::Make(level_, split_));
}

bool TagIndex::ReserveOverflow(std::uint64_t count) {
  while (overflow_free_count_ + (overflow_end_ - overflow_next_) / sizeof(Bucket) < count) {
    // The rest of the present chunk goes to the free list, so that one chunk is open at a time.
    for (; overflow_next_ < overflow_end_; overflow_next_ += sizeof(Bucket)) {
      auto* rest = reinterpret_cast<Bucket*>(memory_.At(overflow_next_));
      ++overflow_used_;
      GiveOverflow(rest);
    }
    const std::uint64_t bytes =
        std::clamp(std::bit_floor(overflow_used_ * sizeof(Bucket) / 8), kChunkBytesMin,
                   std::min(kOverflowChunkBytesMax, memory_.block_bytes()));
    const std::uint64_t offset = memory_.AllocateChunk(bytes);
    if (offset == 0) return false;
    overflow_chunks_.push_back({offset, bytes});
    overflow_next_ = offset;
    overflow_end_ = offset + bytes;
    allocated_bytes_ += bytes;
  }
  return true;
}

Bucket* TagIndex::TakeOverflow() {
  Bucket* taken = nullptr;
  if (overflow_free_ != 0) {
    taken = reinterpret_cast<Bucket*>(memory_.At(overflow_free_ * sizeof(Bucket)));
    overflow_free_ = bucket::Link(taken->header);
    --overflow_free_count_;
  } else {
    TP_CHECK(overflow_next_ < overflow_end_);
    taken = reinterpret_cast<Bucket*>(memory_.At(overflow_next_));
    overflow_next_ += sizeof(Bucket);
  }
  ++overflow_used_;
  StoreBucket(taken, 0);
  return taken;
}

void TagIndex::GiveOverflow(Bucket* overflow) {
  TP_DCHECK(overflow_used_ > 0);
  StoreBucket(overflow, bucket::WithLink(0, overflow_free_));
  overflow_free_ = LinkTo(overflow);
  ++overflow_free_count_;
  --overflow_used_;
}

bool TagIndex::MakeRoom(std::uint64_t hash) {
  if (overflow_free_ != 0 || overflow_next_ < overflow_end_) return true;
  if (ReserveOverflow(1)) return true;
  const Bucket* at = BucketAt(Home(hash & hash_mask_));
  for (;;) {
    for (const std::uint64_t slot : at->slots) {
      if (slot == 0) return true;
    }
    if (bucket::Link(at->header) == 0) return false;
    at = Linked(at->header);
  }
}

void TagIndex::PlaceSlot(Bucket* home, std::uint64_t slot) {
  for (Bucket* at = home;;) {
    for (std::uint64_t& word : at->slots) {
      if (word != 0) continue;
      StoreRelease(word, slot);
      return;
    }
    if (bucket::Link(at->header) == 0) {
      Bucket* overflow = TakeOverflow();
      overflow->slots[0] = slot;
      StoreRelease(at->header, bucket::WithLink(at->header, LinkTo(overflow)));
      return;
    }
    at = Linked(at->header);
  }
}

void TagIndex::Insert(std::uint64_t hash, std::uint64_t location, HashReader read) {
  TP_DCHECK(location != 0);
  TP_DCHECK(location <= kLocationMask);
  hash &= hash_mask_;
  Bucket* home = BucketAt(Home(hash));
  PlaceSlot(home, MakeSlot(TagOf(hash, bucket::TagShift(home->header)), location));
  ++size_;
  if (size_ > grow_at_ && SplitOne(read)) {
    grow_at_ = bucket_count() * kFillNumerator / kFillDenominator;
  }
}

void TagIndex::Replace(std::uint64_t* slot, std::uint64_t location) {
  StoreRelease(*slot, MakeSlot(SlotTag(*slot), location));
}

void TagIndex::Erase(std::uint64_t* slot) {
  TP_DCHECK(*slot != 0);
  TP_DCHECK(size_ > 0);
  StoreRelease(*slot, 0);
  --size_;
}

bool TagIndex::SplitOne(HashReader read) {
  // The deciding hash bit exists up to depth 63; nobody has memory for that many buckets.
  if (level_ >= growth::kLevelMax) return false;
  const std::uint64_t from = split_;
  const std::uint64_t to = from + low_mask_ + 1;
  if (!EnsureBucketMemory(to)) return false;
  Bucket* home = BucketAt(from);
  // The new bucket's chain needs at most as many overflow buckets as the old one has.
  std::uint64_t overflow = 0;
  for (Bucket* at = home; bucket::Link(at->header) != 0; at = Linked(at->header)) ++overflow;
  if (overflow != 0 && !ReserveOverflow(overflow)) return false;
  const unsigned depth = level_;
  TP_DCHECK(bucket::Depth(home->header) == depth);
  if (depth + 1 - bucket::TagShift(home->header) > kRebuildAtSplit &&
      !RebuildChain(home, depth, read)) {
    return false;
  }

  const unsigned shift = bucket::TagShift(home->header);
  Bucket* target = BucketAt(to);
  StoreBucket(target, bucket::Make(bucket::kSequenceStep, depth + 1, shift, 0));
  MakeOdd(home);
  Distribute(home, target, depth - shift);
  StoreRelaxed(home->header,
               bucket::Make(home->header, depth + 1, shift, bucket::Link(home->header)));
  MakeEven(target);
  if (++split_ == low_mask_ + 1) {
    ++level_;
    low_mask_ = low_mask_ << 1 | 1;
    split_ = 0;
  }
  // While the old bucket is odd: who finds it even again goes by this.
  ShowGrowth();
  MakeEven(home);
  // The next split's line is fetched now: splits walk the buckets in order.
  __builtin_prefetch(BucketAt(split_), 1);
  return true;
}

// One pass over the chain: a slot goes to `target`'s chain or closer to the front of its own, which
// never passes the place it is read from.
void TagIndex::Distribute(Bucket* home, Bucket* target, unsigned decisive_tag_bit) {
  Bucket* keep = home;
  int keep_at = 0;
  Bucket* move = target;
  int move_at = 0;
  for (Bucket* at = home;;) {
    for (std::uint64_t& word : at->slots) {
      const std::uint64_t slot = word;
      if (slot == 0) continue;
      if ((SlotTag(slot) >> decisive_tag_bit & 1) == 0) {
        if (keep_at == kSlotsPerBucket) {
          keep = Linked(keep->header);
          keep_at = 0;
        }
        if (&keep->slots[keep_at] != &word) {
          StoreRelaxed(keep->slots[keep_at], slot);
          StoreRelaxed(word, 0);
        }
        ++keep_at;
        continue;
      }
      if (move_at == kSlotsPerBucket) {
        Bucket* overflow = TakeOverflow();
        StoreRelaxed(move->header, bucket::WithLink(move->header, LinkTo(overflow)));
        move = overflow;
        move_at = 0;
      }
      StoreRelaxed(move->slots[move_at++], slot);
      StoreRelaxed(word, 0);
    }
    if (bucket::Link(at->header) == 0) break;
    at = Linked(at->header);
  }
  std::uint64_t rest = bucket::Link(keep->header);
  StoreRelaxed(keep->header, bucket::WithLink(keep->header, 0));
  while (rest != 0) {
    auto* overflow = reinterpret_cast<Bucket*>(memory_.At(rest * sizeof(Bucket)));
    rest = bucket::Link(overflow->header);
    GiveOverflow(overflow);
  }
}

bool TagIndex::RebuildChain(Bucket* home, unsigned tag_shift, HashReader read) {
  hashes_.clear();
  bool complete = true;
  VisitChainOf(home, [&](std::uint64_t location) {
    std::uint64_t hash = 0;
    complete &= read(location, &hash);
    hashes_.push_back(hash);
  });
  if (!complete) return false;
  std::size_t next = 0;
  MakeOdd(home);
  for (Bucket* at = home;;) {
    for (std::uint64_t& word : at->slots) {
      if (word == 0) continue;
      const std::uint64_t location = SlotLocation(word);
      StoreRelaxed(word, MakeSlot(TagOf(hashes_[next++] & hash_mask_, tag_shift), location));
    }
    if (bucket::Link(at->header) == 0) break;
    at = Linked(at->header);
  }
  StoreRelaxed(home->header, bucket::Make(home->header, bucket::Depth(home->header), tag_shift,
                                          bucket::Link(home->header)));
  MakeEven(home);
  ++rebuilt_buckets_;
  return true;
}

bool TagIndex::GrowSlice(std::uint64_t records, HashReader read, absl::FunctionRef<bool()> done) {
  while (grow_at_ < records) {
    if (done()) return true;
    if (!SplitOne(read)) return false;
    grow_at_ = bucket_count() * kFillNumerator / kFillDenominator;
  }
  return false;
}

bool TagIndex::RebuildDue() const {
  return rebuilding_ || level_ + 1 - oldest_shift_ > kRebuildAfter;
}

bool TagIndex::RebuildSlice(HashReader read, absl::FunctionRef<bool()> done) {
  if (!RebuildDue()) return false;
  if (!rebuilding_) {
    rebuilding_ = true;
    rebuild_shift_ = level_;
    rebuild_next_ = 0;
  }
  // Buckets made meanwhile come after rebuild_next_, so none is missed.
  for (; rebuild_next_ < bucket_count(); ++rebuild_next_) {
    if (done()) return true;
    Bucket* home = BucketAt(rebuild_next_);
    if (bucket::TagShift(home->header) >= rebuild_shift_) continue;
    if (!RebuildChain(home, bucket::Depth(home->header), read)) {
      ReadAhead(rebuild_next_ + 1, read);
      return true;
    }
  }
  rebuilding_ = false;
  oldest_shift_ = rebuild_shift_;
  return RebuildDue();
}

void TagIndex::ReadAhead(std::uint64_t from, HashReader read) const {
  constexpr std::uint64_t kBucketsAhead = 8;  // Some 40 keys.
  for (std::uint64_t bucket = from; bucket < std::min(from + kBucketsAhead, bucket_count());
       ++bucket) {
    VisitChain(bucket, [&](std::uint64_t location) {
      std::uint64_t hash = 0;
      (void)read(location, &hash);
    });
  }
}

namespace {

std::uint64_t ReverseBits(std::uint64_t word) {
  word = (word >> 1 & 0x5555555555555555) | (word & 0x5555555555555555) << 1;
  word = (word >> 2 & 0x3333333333333333) | (word & 0x3333333333333333) << 2;
  word = (word >> 4 & 0x0F0F0F0F0F0F0F0F) | (word & 0x0F0F0F0F0F0F0F0F) << 4;
  return __builtin_bswap64(word);
}

}  // namespace

std::uint64_t TagIndex::PositionOf(std::uint64_t hash) const {
  return ReverseBits(hash & hash_mask_);
}

std::uint64_t TagIndex::BucketOfPosition(std::uint64_t position, std::uint64_t* next) const {
  const std::uint64_t bucket = Home(ReverseBits(position));
  const unsigned depth = bucket::Depth(BucketAt(bucket)->header);
  const std::uint64_t span = 1ull << (64 - depth);
  *next = (position & ~(span - 1)) + span;
  return bucket;
}

void TagIndex::VisitChain(std::uint64_t bucket,
                          absl::FunctionRef<void(std::uint64_t)> visit) const {
  VisitChainOf(BucketAt(bucket), visit);
}

void TagIndex::VisitChainOf(const Bucket* home,
                            absl::FunctionRef<void(std::uint64_t)> visit) const {
  for (const Bucket* at = home;;) {
    for (const std::uint64_t slot : at->slots) {
      if (slot != 0) visit(SlotLocation(slot));
    }
    if (bucket::Link(at->header) == 0) return;
    at = Linked(at->header);
  }
}

void TagIndex::ClearChain(std::uint64_t bucket) {
  for (Bucket* at = BucketAt(bucket);;) {
    for (std::uint64_t& slot : at->slots) {
      if (slot != 0) Erase(&slot);
    }
    if (bucket::Link(at->header) == 0) return;
    at = Linked(at->header);
  }
}

void TagIndex::CheckInvariants(HashReader read) const {
  std::uint64_t slots = 0;
  std::uint64_t overflow = 0;
  for (std::uint64_t i = 0; i < bucket_count(); ++i) {
    const Bucket* home = BucketAt(i);
    const unsigned depth = bucket::Depth(home->header);
    const unsigned shift = bucket::TagShift(home->header);
    TP_CHECK(!bucket::InFlux(home->header));
    TP_CHECK(depth == level_ + (i < split_ || i > low_mask_ ? 1 : 0));
    TP_CHECK(shift >= oldest_shift_ || rebuilding_);
    TP_CHECK(shift <= depth);
    TP_CHECK(kTagBits - (depth - shift) >= 8);
    for (const Bucket* at = home;; ++overflow) {
      for (const std::uint64_t slot : at->slots) {
        if (slot == 0) continue;
        ++slots;
        std::uint64_t hash = 0;
        if (!read(SlotLocation(slot), &hash)) continue;
        hash &= hash_mask_;
        TP_CHECK(Home(hash) == i);
        TP_CHECK(SlotTag(slot) == TagOf(hash, shift));
      }
      if (bucket::Link(at->header) == 0) break;
      at = Linked(at->header);
    }
  }
  TP_CHECK(slots == size_);
  TP_CHECK(overflow == overflow_used_);
}

}  // namespace tidepool::storage
