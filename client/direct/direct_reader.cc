// The steps of a direct read. The numbers are from client/direct/README.md.
#include "client/direct/direct_reader.h"

#include <algorithm>
#include <cstddef>

#include "client/direct/racing_loads.h"
#include "proto/base/split_block.h"

namespace tidepool::internal {

using storage::Bucket;
using storage::DirectView;
using storage::RecordHeader;
using storage::RecordType;
using storage::SegmentEntry;
using storage::SharedRoot;
namespace bucket = storage::bucket;
namespace directory = storage::directory;
namespace growth = storage::growth;

namespace {

constexpr std::size_t kLengthsAt = offsetof(RecordHeader, value_bytes);
static_assert(kLengthsAt % 8 == 0 && offsetof(RecordHeader, flags) == kLengthsAt + 7);
// Segments of the largest value, if segments have the size that daemons give them.
constexpr std::size_t kExtentSegmentsMax =
    limits::kValueBytesMax / (limits::kSegmentBytes - storage::kExtentHeaderBytes) + 1;
constexpr std::uint64_t kSplitBlocksMax = limits::kFilterBytesMax / kSplitBlockBytes;

}  // namespace

const char* NameOf(DirectRefusal refusal) {
  constexpr std::array<const char*, kDirectRefusals> kNames = {
      "none",  "bad view",     "not mapped", "no lease",    "closed",  "busy",   "unsettled",
      "chain", "not resident", "expired",    "large value", "no room", "sampled"};
  return kNames[static_cast<std::size_t>(refusal)];
}

struct DirectReader::Attempt {
  const DirectPartition& partition;
  Bytes key;
  std::uint64_t hash;
  MutableBytes* to;  // Null: the value is not wanted.
  std::uint64_t lease_ns;
  std::uint64_t guard;
  DirectRead read;
  DirectRefusal again;  // Reason why the present attempt fails.
};

DirectReader::Progress DirectReader::Refuse(DirectRefusal refusal, Attempt& attempt) const {
  attempt.read.outcome = DirectRead::Outcome::kAskOwner;
  attempt.read.refusal = refusal;
  return Progress::kDone;
}

// Handles an unmapped offset: an arena that was not requested yet, or a number that is no offset.
DirectReader::Progress DirectReader::Miss(std::uint64_t node_offset, Attempt& attempt) const {
  if (!map_.MayBeMapped(node_offset)) return Progress::kAgain;
  attempt.read.missing = node_offset;
  return Refuse(DirectRefusal::kNotMapped, attempt);
}

DirectRefusal DirectReader::Open(const DirectView& view, DirectPartition* partition,
                                 std::uint64_t* missing) const {
  if (view.block_shift != map_.block_shift() || view.split_blocks > kSplitBlocksMax ||
      view.core_root % alignof(SharedRoot) != 0 || view.root % alignof(SharedRoot) != 0) {
    return DirectRefusal::kBadView;
  }
  for (const std::uint64_t offset : {view.core_root, view.root}) {
    if (map_.At(offset, sizeof(SharedRoot)) != nullptr) continue;
    *missing = offset;
    return map_.MayBeMapped(offset) ? DirectRefusal::kNotMapped : DirectRefusal::kBadView;
  }
  partition->view_ = view;
  partition->core_ = reinterpret_cast<const SharedRoot*>(map_.At(view.core_root, 1));
  partition->root_ = reinterpret_cast<const SharedRoot*>(map_.At(view.root, 1));
  partition->places_ = storage::BucketPlaces(1ull << view.block_shift);
  return DirectRefusal::kNone;
}

const std::byte* DirectReader::MappedAt(std::uint64_t node_offset, std::uint64_t bytes,
                                        std::uint64_t* missing) const {
  const std::byte* const at = map_.At(node_offset, bytes);
  if (at == nullptr) *missing = node_offset;
  return at;
}

const std::uint64_t* DirectReader::EntryOf(std::uint64_t directory, std::uint64_t entry,
                                           std::uint64_t* missing) const {
  if (entry >= directory::Room(directory)) return nullptr;
  return reinterpret_cast<const std::uint64_t*>(
      MappedAt(directory::EntryOffset(directory, entry), sizeof(std::uint64_t), missing));
}

// Null: the index is just growing; or its memory is not mapped, and `missing` says where.
const Bucket* DirectReader::HomeOf(const DirectPartition& partition, std::uint64_t hash,
                                   unsigned* depth, std::uint64_t* missing) const {
  const std::uint64_t state = racing::Acquire(partition.root_->growth);
  if (growth::Level(state) > growth::kLevelMax) return nullptr;
  const auto [number, home_depth] = growth::HomeOf(state, hash);
  *depth = home_depth;
  const std::size_t piece = partition.places_.PieceOf(number);
  const std::uint64_t* const entry =
      EntryOf(racing::Acquire(partition.root_->directory), piece, missing);
  if (entry == nullptr) return nullptr;
  const std::uint64_t begin = racing::Acquire(*entry);
  if (begin == 0 || begin % sizeof(Bucket) != 0) return nullptr;
  const std::uint64_t offset =
      begin + (number - partition.places_.PieceBegin(piece)) * sizeof(Bucket);
  return reinterpret_cast<const Bucket*>(MappedAt(offset, sizeof(Bucket), missing));
}

const SegmentEntry* DirectReader::SegmentOf(const DirectPartition& partition,
                                            std::uint64_t location, std::uint64_t* missing) const {
  return SegmentAt(partition, location >> (partition.view_.block_shift - 3), missing);
}

const SegmentEntry* DirectReader::SegmentAt(const DirectPartition& partition, std::uint64_t index,
                                            std::uint64_t* missing) const {
  const std::uint64_t* const page = EntryOf(racing::Acquire(partition.core_->directory),
                                            index / storage::kSegmentEntriesPerPage, missing);
  if (page == nullptr) return nullptr;
  const std::uint64_t offset = racing::Acquire(*page);
  if (offset == 0 || offset % sizeof(SegmentEntry) != 0) return nullptr;
  return reinterpret_cast<const SegmentEntry*>(
      MappedAt(offset + index % storage::kSegmentEntriesPerPage * sizeof(SegmentEntry),
               sizeof(SegmentEntry), missing));
}

// (2)
DirectReader::Progress DirectReader::Begin(Attempt& attempt) const {
  TIDEPOOL_STEP(2);
  attempt.lease_ns = racing::Acquire(attempt.partition.core_->word);
  TIDEPOOL_STEP(2);
  attempt.guard = racing::Acquire(attempt.partition.root_->word);
  if (storage::ServingEpochOf(attempt.guard) != attempt.partition.view_.serving_epoch) {
    return Refuse(DirectRefusal::kClosed, attempt);
  }
  if ((attempt.guard & storage::kGuardBusy) != 0) {
    attempt.again = DirectRefusal::kBusy;
    return Progress::kAgain;
  }
  attempt.again = DirectRefusal::kUnsettled;
  return Progress::kPass;
}

DirectReader::Progress DirectReader::Try(Attempt& attempt) const {
  if (const Progress begun = Begin(attempt); begun != Progress::kPass) return begun;
  return Look(attempt);
}

// (3), (4), and a miss.
DirectReader::Progress DirectReader::Look(Attempt& attempt) const {
  TIDEPOOL_STEP(3);
  const std::uint64_t hash = attempt.hash & attempt.partition.view_.hash_mask;
  unsigned depth = 0;
  std::uint64_t missing = 0;
  const Bucket* const home = HomeOf(attempt.partition, hash, &depth, &missing);
  if (home == nullptr) return missing == 0 ? Progress::kAgain : Miss(missing, attempt);
  const std::uint64_t header = racing::Acquire(home->header);
  if (bucket::InFlux(header) || bucket::Depth(header) != depth) return Progress::kAgain;
  const std::uint64_t tag = storage::TagOf(hash, bucket::TagShift(header));

  std::uint64_t link = bucket::Link(header);
  const Bucket* at = home;
  for (int buckets = 1;; ++buckets) {
    TIDEPOOL_STEP(4);
    for (unsigned left = racing::MatchesOf(*at, tag); left != 0; left &= left - 1) {
      const std::uint64_t& slot = at->slots[__builtin_ctz(left)];
      const std::uint64_t word = racing::Acquire(slot);
      // Emptied or filled again since it was compared: as if that had been a moment later.
      if (word == 0 || storage::SlotTag(word) != tag) continue;
      const Progress progress = Read(word, slot, attempt);
      if (progress != Progress::kPass) return progress;
    }
    if (link == 0) break;
    if (buckets == kChainMax) return Refuse(DirectRefusal::kLongChain, attempt);
    const std::byte* const next = map_.At(link * sizeof(Bucket), sizeof(Bucket));
    if (next == nullptr) return Miss(link * sizeof(Bucket), attempt);
    at = reinterpret_cast<const Bucket*>(next);
    link = bucket::Link(racing::Acquire(at->header));
  }

  racing::AcquireFence();
  TIDEPOOL_STEP(9);
  if (racing::Acquire(home->header) != header) return Progress::kAgain;
  TIDEPOOL_STEP(9);
  if (racing::Acquire(attempt.partition.root_->word) != attempt.guard) return Progress::kAgain;
  attempt.read.outcome = DirectRead::Outcome::kNotFound;
  return Progress::kDone;
}

// Steps (5) to (9) for a slot. kPass: the slot belongs to another key.
DirectReader::Progress DirectReader::Read(std::uint64_t slot_word, const std::uint64_t& slot,
                                          Attempt& attempt) const {
  const DirectPartition& partition = attempt.partition;
  const std::uint64_t location = storage::SlotLocation(slot_word);
  std::uint64_t missing = 0;
  const SegmentEntry* const segment = SegmentOf(partition, location, &missing);
  if (segment == nullptr) return missing == 0 ? Progress::kAgain : Miss(missing, attempt);
  TIDEPOOL_STEP(5);
  const std::uint64_t segment_word = racing::Acquire(segment->word);
  const std::uint64_t frame = racing::Relaxed(segment->frame);
  TIDEPOOL_STEP(5);
  if (racing::Acquire(slot) != slot_word) return Progress::kAgain;
  if ((segment_word & storage::kSegmentResident) == 0) {
    return Refuse(DirectRefusal::kNotResident, attempt);
  }

  const std::uint64_t segment_bytes = 1ull << partition.view_.block_shift;
  const std::uint64_t offset = location * storage::kRecordAlign & (segment_bytes - 1);
  if (frame % segment_bytes != 0 || segment_bytes - offset < sizeof(RecordHeader)) {
    return Progress::kAgain;
  }
  const std::byte* const base = map_.At(frame, segment_bytes);
  if (base == nullptr) return Miss(frame, attempt);
  const std::byte* const at = base + offset;
  const RecordHeader& record = *reinterpret_cast<const RecordHeader*>(at);
  const std::uint64_t room = segment_bytes - offset;

  TIDEPOOL_STEP(6);
  const std::uint32_t sequence = racing::Acquire(record.sequence);
  if (sequence % 2 != 0) return Progress::kAgain;
  const std::uint64_t lengths = racing::RelaxedAt(at + kLengthsAt);
  const auto value_bytes = static_cast<std::uint32_t>(lengths);
  const auto key_bytes = static_cast<std::uint16_t>(lengths >> 32);
  const auto type = static_cast<RecordType>(lengths >> 48 & 0xff);
  const auto flags = static_cast<std::uint8_t>(lengths >> 56);
  const bool is_large = type == RecordType::kPutExtent;
  if (type != RecordType::kPut && !is_large) return Progress::kAgain;
  const std::uint64_t stored_bytes =
      is_large ? storage::ShapeOfExtent(value_bytes, segment_bytes).stored_bytes() : value_bytes;
  if (storage::RecordBytes(key_bytes, stored_bytes, flags) > room) return Progress::kAgain;

  const bool is_its =
      key_bytes == attempt.key.size() && racing::Equal(at + sizeof(RecordHeader), attempt.key);
  bool is_expired = false;
  DirectRead read;
  if (is_its) {
    TIDEPOOL_STEP(7);
    read.outcome = DirectRead::Outcome::kFound;
    read.value_flags = flags & storage::kCounterFlags;
    read.value_bytes = value_bytes;
    read.version = racing::RelaxedAt(at + offsetof(RecordHeader, lsn));
    TIDEPOOL_STEP(7);
    attempt.read.value_bytes = value_bytes;
    if (attempt.to != nullptr && attempt.to->size() < value_bytes) {
      return Refuse(DirectRefusal::kNoRoom, attempt);
    }
    if (attempt.to != nullptr) {
      const std::byte* const stored = at + sizeof(RecordHeader) + key_bytes;
      const MutableBytes to = attempt.to->first(value_bytes);
      if (is_large) {
        const Progress copied = CopyExtent(stored, slot_word, slot, to, attempt);
        if (copied != Progress::kPass) return copied;
      } else {
        racing::Copy(stored, to);
      }
    }
    if ((flags & storage::kRecordExpiry) != 0) {
      is_expired = racing::RelaxedAt(at + storage::RecordBytes(key_bytes, stored_bytes, 0)) <=
                   NowMs(*attempt.partition.core_);
    }
  }

  // (8), (9): in this order. Otherwise a torn value passes, where the bytes were reused between the
  // segment's word and the sequence.
  racing::AcquireFence();
  TIDEPOOL_STEP(9);
  if (racing::Acquire(record.sequence) != sequence) return Progress::kAgain;
  TIDEPOOL_STEP(9);
  if (racing::Acquire(segment->word) != segment_word) return Progress::kAgain;
  TIDEPOOL_STEP(9);
  if (racing::Acquire(partition.root_->word) != attempt.guard) return Progress::kAgain;
  if (!is_its) return Progress::kPass;
  if (is_expired) return Refuse(DirectRefusal::kExpired, attempt);
  attempt.read = read;
  return Progress::kDone;
}

// The owner's time of expiry, by the owner's formula (proto/base/steady_clock): a jump of the
// machine's clock moves neither.
std::uint64_t DirectReader::NowMs(const SharedRoot& core) const {
  const std::uint64_t offset_ns = racing::Relaxed(core.wall_offset_ns);
  return offset_ns == 0 ? clock_.WallMs() : (clock_.MonotonicNs() + offset_ns) / 1'000'000;
}

// Step (7) for a value in its own segments. The record names them, and they are freed with the
// record. If the slot still has its word after the segment words were read, the record had the
// segments then. If the slot has the same word after the copy, the record has them still. kPass:
// all is copied.
//
// The owner sends a value that changes during the copy, because repeated copies could take long.
[[gnu::noinline]] DirectReader::Progress DirectReader::CopyExtent(const std::byte* stored,
                                                                  std::uint64_t slot_word,
                                                                  const std::uint64_t& slot,
                                                                  MutableBytes to,
                                                                  Attempt& attempt) const {
  struct Piece {
    const SegmentEntry* segment;
    std::uint64_t word;
    const std::byte* base;
  };
  const std::uint64_t segment_bytes = 1ull << attempt.partition.view_.block_shift;
  const storage::ExtentShape shape = storage::ShapeOfExtent(to.size(), segment_bytes);
  std::array<Piece, kExtentSegmentsMax> room;  // Not cleared: 12 KiB.
  if (shape.segments > room.size()) return Refuse(DirectRefusal::kLargeValue, attempt);
  const std::span<Piece> pieces = std::span(room).first(shape.segments);
  for (Piece& piece : pieces) {
    std::array<std::byte, storage::kExtentLinkBytes> packed;
    racing::Copy(stored, packed);
    stored += packed.size();
    const storage::ExtentLink link = storage::LoadExtentLink(packed.data());
    std::uint64_t missing = 0;
    piece.segment = SegmentAt(attempt.partition, link.index, &missing);
    if (missing != 0) return Miss(missing, attempt);
    // The index of a recovered record is from an earlier life.
    if (piece.segment == nullptr) return Refuse(DirectRefusal::kLargeValue, attempt);
    TIDEPOOL_STEP(7);
    piece.word = racing::Acquire(piece.segment->word);
    const std::uint64_t frame = racing::Relaxed(piece.segment->frame);
    if ((piece.word & storage::kSegmentResident) == 0) {
      return Refuse(DirectRefusal::kNotResident, attempt);
    }
    if (frame % segment_bytes != 0) return Progress::kAgain;
    piece.base = map_.At(frame, segment_bytes);
    if (piece.base == nullptr) return Miss(frame, attempt);
    if (racing::RelaxedAt(piece.base + offsetof(storage::SegmentHeader, number)) != link.number) {
      return Refuse(DirectRefusal::kLargeValue, attempt);
    }
  }
  TIDEPOOL_STEP(7);
  if (racing::Acquire(slot) != slot_word) return Progress::kAgain;
  const std::uint64_t capacity = storage::ExtentSegmentCapacity(segment_bytes);
  for (const Piece& piece : pieces) {
    TIDEPOOL_STEP(7);
    const MutableBytes part = to.first(std::min<std::size_t>(to.size(), capacity));
    racing::Copy(piece.base + storage::kExtentHeaderBytes, part);
    to = to.subspan(part.size());
  }
  racing::Copy(stored, to);
  racing::AcquireFence();
  for (const Piece& piece : pieces) {
    TIDEPOOL_STEP(7);
    if (racing::Acquire(piece.segment->word) != piece.word) {
      return Refuse(DirectRefusal::kUnsettled, attempt);
    }
  }
  return Progress::kPass;
}

struct DirectReader::FilterPlace {
  bool known = false;  // False: the filter is growing, or `offset`, if any, is not mapped.
  bool empty = false;  // No value was inserted there.
  std::uint64_t offset = 0;
};

// Returns the block of a hash in a filter. Null: see `place`, or the block is not mapped.
const std::byte* DirectReader::FilterLanes(const DirectPartition& partition, std::uint64_t hash,
                                           FilterPlace* place) const {
  const std::uint64_t split_blocks = partition.view_.split_blocks;
  const std::uint64_t at = SplitBlockOf(hash, split_blocks) * kSplitBlockBytes;
  const std::uint64_t block_bytes =
      std::min({split_blocks * kSplitBlockBytes, std::uint64_t{limits::kFilterBlockBytes},
                std::uint64_t{1} << partition.view_.block_shift});
  const std::uint64_t* const entry =
      EntryOf(racing::Acquire(partition.root_->directory), at / block_bytes, &place->offset);
  place->known = entry != nullptr;
  if (entry == nullptr) return nullptr;
  const std::uint64_t begin = racing::Acquire(*entry);
  place->empty = begin == 0;
  if (begin == 0) return nullptr;
  place->offset = begin + at % block_bytes;
  return map_.At(place->offset, kSplitBlockBytes);
}

void DirectReader::PrefetchLanes(const DirectPartition& partition, std::uint64_t hash) const {
  FilterPlace place;
  __builtin_prefetch(FilterLanes(partition, hash, &place));
}

DirectReader::Progress DirectReader::TryFilter(Attempt& attempt) const {
  if (const Progress begun = Begin(attempt); begun != Progress::kPass) return begun;
  const DirectPartition& partition = attempt.partition;
  FilterPlace place;
  const std::byte* const lanes = FilterLanes(partition, attempt.hash, &place);
  if (!place.known) return place.offset == 0 ? Progress::kAgain : Miss(place.offset, attempt);
  std::uint32_t absent = place.empty ? 1 : 0;
  if (!place.empty) {
    if (lanes == nullptr) return Miss(place.offset, attempt);
    if (place.offset % sizeof(std::uint64_t) != 0) return Progress::kAgain;
    for (int lane = 0; lane < kSplitBlockLanes; lane += 2) {
      const std::uint64_t two =
          racing::RelaxedAt(lanes + static_cast<std::size_t>(lane) * sizeof(std::uint32_t));
      absent |= SplitBlockBit(attempt.hash, lane) & ~static_cast<std::uint32_t>(two);
      absent |= SplitBlockBit(attempt.hash, lane + 1) & ~static_cast<std::uint32_t>(two >> 32);
    }
  }
  racing::AcquireFence();
  TIDEPOOL_STEP(9);
  if (racing::Acquire(partition.root_->word) != attempt.guard) return Progress::kAgain;
  attempt.read.outcome = absent == 0 ? DirectRead::Outcome::kFound : DirectRead::Outcome::kNotFound;
  return Progress::kDone;
}

// All but (10).
DirectRead DirectReader::Run(const DirectPartition& partition, Bytes key, std::uint64_t hash,
                             MutableBytes* to, std::uint64_t* lease_ns) {
  Attempt attempt{partition, key, hash, to, 0, 0, {}, DirectRefusal::kUnsettled};
  if (!partition.usable()) {
    Refuse(DirectRefusal::kBadView, attempt);
    return attempt.read;
  }
  const bool is_filter = partition.view_.split_blocks != 0;
  if ((partition.view_.flags & DirectView::kMayLeave) != 0 && !is_filter && --until_sample_ == 0) {
    until_sample_ = kSampleEvery;
    Refuse(DirectRefusal::kSampled, attempt);
    return attempt.read;
  }
  for (int tries = 0; tries < kAttempts; ++tries) {
    attempt.read = {};
    const Progress progress = is_filter ? TryFilter(attempt) : Try(attempt);
    *lease_ns = attempt.lease_ns;
    if (progress == Progress::kDone) return attempt.read;
  }
  Refuse(attempt.again, attempt);
  return attempt.read;
}

// (10)
DirectRead DirectReader::Finish(const DirectPartition& partition, DirectRead read,
                                std::uint64_t lease_ns, std::uint64_t now_ns) {
  if (read.outcome != DirectRead::Outcome::kAskOwner &&
      (lease_ns <= now_ns ||
       (racing::Acquire(partition.core_->life[0]) & storage::kOwnerDied) != 0)) {
    read = {};
    read.refusal = DirectRefusal::kNoLease;
  }
  ++counts_[static_cast<std::size_t>(read.refusal)];
  read.at_ns = now_ns;
  return read;
}

DirectRead DirectReader::Get(const DirectPartition& partition, Bytes key, std::uint64_t hash,
                             MutableBytes to) {
  std::uint64_t lease_ns = 0;
  const DirectRead read = Run(partition, key, hash, &to, &lease_ns);
  TIDEPOOL_STEP(10);
  return Finish(partition, read, lease_ns, clock_.MonotonicNs());
}

DirectRead DirectReader::Contains(const DirectPartition& partition, Bytes key, std::uint64_t hash) {
  std::uint64_t lease_ns = 0;
  const DirectRead read = Run(partition, key, hash, nullptr, &lease_ns);
  TIDEPOOL_STEP(10);
  return Finish(partition, read, lease_ns, clock_.MonotonicNs());
}

}  // namespace tidepool::internal
