// The rounds of a remote read. The letters are from client/direct/README.md.
#include "client/direct/remote_lookup.h"

#include <algorithm>
#include <cstring>

#include "client/direct/racing_loads.h"
#include "proto/base/limits.h"
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

constexpr int kRefreshesMax = 8;
// Bytes read of a record of unknown size. Most values are no larger, and further bytes cost a card
// little.
constexpr std::size_t kFirstValueBytes = 512;
// An update in place keeps the record's room, which is rounded up.
constexpr std::uint32_t kInPlaceBelow = limits::kInPlaceValueBytesMax + storage::kRecordAlign;

// False if an owner changed the record between two looks at its header. The version differs even if
// the place holds another record by now, because each version of a partition is unique.
bool SameHeader(const RecordHeader& a, const RecordHeader& b) {
  return (a.sequence & ~storage::kSequenceRead) == (b.sequence & ~storage::kSequenceRead) &&
         a.lsn == b.lsn && a.value_bytes == b.value_bytes && a.key_bytes == b.key_bytes &&
         a.type == b.type && a.flags == b.flags && a.partition == b.partition;
}

// Returns entry `entry` if it lies in the root itself, otherwise null.
const std::uint64_t* InRoot(const SharedRoot& root, std::uint64_t root_offset,
                            std::uint64_t entry_offset) {
  const std::uint64_t begin = root_offset + offsetof(SharedRoot, entries);
  if (entry_offset < begin) return nullptr;
  const std::uint64_t at = (entry_offset - begin) / sizeof(std::uint64_t);
  return at < SharedRoot::kEntries ? &root.entries[at] : nullptr;
}

}  // namespace

RemoteLookup::RemoteLookup(RemoteReader::Item& item, const transport::MemoryImporter& importer,
                           MutableBytes buffer)
    : item_(item),
      partition_(*item.partition),
      importer_(importer),
      fixed_(*reinterpret_cast<Fixed*>(buffer.data())),
      record_(buffer.data() + kFixedBytes),
      record_room_(buffer.size() - kFixedBytes),
      hash_(IsFilter() ? item.hash : item.hash & partition_.view_.hash_mask) {}

bool RemoteLookup::Step(Parts* parts) {
  parts_ = parts;
  for (;;) {
    Next next = Next::kDone;
    switch (stage_) {
      case Stage::kBegin:
        next = Begin();
        break;
      case Stage::kRoot:
        next = OnRoot();
        break;
      case Stage::kEntry:
        next = OnEntry();
        break;
      case Stage::kBucket:
        next = OnBucket();
        break;
      case Stage::kLanes:
        next = OnLanes();
        break;
      case Stage::kCoreRoot:
        next = OnCoreRoot();
        break;
      case Stage::kCorePage:
        next = OnCorePage();
        break;
      case Stage::kSegment:
        next = OnSegment();
        break;
      case Stage::kRecord:
        next = OnRecord();
        break;
      case Stage::kValue:
        next = OnValue();
        break;
      case Stage::kBuckets:
        next = OnBuckets();
        break;
      case Stage::kCheck:
        next = OnCheck();
        break;
      case Stage::kDone:
        break;
    }
    if (next == Next::kWait) return true;
    if (next == Next::kAgain) {
      stage_ = Stage::kBegin;
      continue;
    }
    stage_ = Stage::kDone;
    return false;
  }
}

RemoteLookup::Next RemoteLookup::Refuse(DirectRefusal refusal) {
  item_.read.outcome = DirectRead::Outcome::kAskOwner;
  item_.read.refusal = refusal;
  return Next::kDone;
}

RemoteLookup::Next RemoteLookup::Again(DirectRefusal why) {
  again_ = why;
  return Next::kAgain;
}

// False: the bytes may not be read, and the item says which memory is missing.
bool RemoteLookup::Want(std::uint64_t offset, std::size_t bytes, void* to) {
  if (!importer_.Has(offset, bytes)) {
    item_.read.missing = offset;
    Refuse(DirectRefusal::kNotMapped);
    return false;
  }
  parts_->push_back({offset, bytes, static_cast<std::byte*>(to)});
  return true;
}

// Reads the slot after the record, to prove that the record was there during its read.
bool RemoteLookup::WantSlot() {
  const std::uint64_t slots = bucket_offsets_[buckets_ - 1] + offsetof(Bucket, slots);
  return Want(slots + static_cast<std::uint64_t>(slot_) * sizeof slot_word_,
              sizeof fixed_.slot_again, &fixed_.slot_again);
}

// (a) The root, and beside it the bucket where it was last time.
RemoteLookup::Next RemoteLookup::Begin() {
  if (attempts_++ == DirectReader::kAttempts) return Refuse(again_);
  item_.read = {};
  again_ = DirectRefusal::kUnsettled;
  buckets_ = believed_count_ = 0;
  found_ = bucket_guessed_ = changes_in_place_ = false;
  if (!Want(partition_.view_.root, sizeof(SharedRoot), &fixed_.root)) return Next::kDone;
  if (!IsFilter() && growth::Level(partition_.growth_) <= growth::kLevelMax) {
    home_ = growth::HomeOf(partition_.growth_, hash_);
    piece_ = partition_.places_.PieceOf(home_.bucket);
    const auto begin = partition_.entries_.find(piece_);
    if (begin != partition_.entries_.end()) {
      bucket_guessed_ = true;
      bucket_offsets_[0] =
          begin->second + (home_.bucket - partition_.places_.PieceBegin(piece_)) * sizeof(Bucket);
      if (!Want(bucket_offsets_[0], sizeof(Bucket), &fixed_.buckets[0])) return Next::kDone;
    }
  }
  return Waiting(Stage::kRoot);
}

RemoteLookup::Next RemoteLookup::OnRoot() {
  guard_ = fixed_.root.word;
  if (storage::ServingEpochOf(guard_) != partition_.view_.serving_epoch)
    return Refuse(DirectRefusal::kClosed);
  if ((guard_ & storage::kGuardBusy) != 0) return Again(DirectRefusal::kBusy);
  const bool as_known =
      fixed_.root.growth == partition_.growth_ && fixed_.root.directory == partition_.directory_;
  partition_.growth_ = fixed_.root.growth;
  partition_.directory_ = fixed_.root.directory;
  if (IsFilter()) {
    const std::uint64_t split_blocks = partition_.view_.split_blocks;
    const std::uint64_t block_bytes =
        std::min({split_blocks * kSplitBlockBytes, std::uint64_t{limits::kFilterBlockBytes},
                  std::uint64_t{1} << partition_.view_.block_shift});
    piece_ = SplitBlockOf(hash_, split_blocks) * kSplitBlockBytes / block_bytes;
  } else {
    if (as_known && bucket_guessed_) return OnBucket();
    if (growth::Level(partition_.growth_) > growth::kLevelMax) {
      return Again(DirectRefusal::kUnsettled);
    }
    home_ = growth::HomeOf(partition_.growth_, hash_);
    piece_ = partition_.places_.PieceOf(home_.bucket);
    if (partition_.entries_.contains(piece_)) return GoToBucket();
  }
  if (piece_ >= directory::Room(partition_.directory_)) return Again(DirectRefusal::kUnsettled);
  const std::uint64_t offset = directory::EntryOffset(partition_.directory_, piece_);
  if (const auto* const entry = InRoot(fixed_.root, partition_.view_.root, offset)) {
    fixed_.entry = *entry;
    return OnEntry();
  }
  if (!Want(offset, sizeof fixed_.entry, &fixed_.entry)) return Next::kDone;
  return Waiting(Stage::kEntry);
}

RemoteLookup::Next RemoteLookup::OnEntry() {
  const std::uint64_t begin = fixed_.entry;
  if (IsFilter()) return GoToLanes(begin);
  if (begin == 0 || begin % sizeof(Bucket) != 0) return Again(DirectRefusal::kUnsettled);
  partition_.entries_[piece_] = begin;
  return GoToBucket();
}

RemoteLookup::Next RemoteLookup::GoToBucket() {
  bucket_offsets_[0] = partition_.entries_[piece_] +
                       (home_.bucket - partition_.places_.PieceBegin(piece_)) * sizeof(Bucket);
  if (!Want(bucket_offsets_[0], sizeof(Bucket), &fixed_.buckets[0])) return Next::kDone;
  return Waiting(Stage::kBucket);
}

RemoteLookup::Next RemoteLookup::OnBucket() {
  const Bucket& at = fixed_.buckets[buckets_];
  if (buckets_ == 0) {
    if (bucket::InFlux(at.header) || bucket::Depth(at.header) != home_.depth) {
      return Again(DirectRefusal::kUnsettled);
    }
    tag_ = storage::TagOf(hash_, bucket::TagShift(at.header));
  }
  ++buckets_;
  left_ = racing::MatchesOf(at, tag_);
  return Scan();
}

// The next slot of the bucket at hand that has the tag, else the next bucket, else it is a miss.
RemoteLookup::Next RemoteLookup::Scan() {
  const Bucket& at = fixed_.buckets[buckets_ - 1];
  if (left_ != 0) {
    slot_ = __builtin_ctz(left_);
    left_ &= left_ - 1;
    return LookAt(at.slots[slot_]);
  }
  const std::uint64_t link = bucket::Link(at.header);
  if (link == 0) return OnEnd();
  if (buckets_ == kBucketsMax) return Refuse(DirectRefusal::kLongChain);
  bucket_offsets_[buckets_] = link * sizeof(Bucket);
  if (!Want(bucket_offsets_[buckets_], sizeof(Bucket), &fixed_.buckets[buckets_])) {
    return Next::kDone;
  }
  return Waiting(Stage::kBucket);
}

// (b) for a chain without the key. The bucket bytes of (a) may come from several moments.
RemoteLookup::Next RemoteLookup::OnEnd() {
  for (std::size_t i = 0; i < buckets_; ++i) {
    if (!Want(bucket_offsets_[i], sizeof(Bucket), &fixed_.buckets_again[i])) return Next::kDone;
  }
  return Waiting(Stage::kBuckets);
}

RemoteLookup::Next RemoteLookup::OnBuckets() {
  if (std::memcmp(fixed_.buckets, fixed_.buckets_again, buckets_ * sizeof(Bucket)) != 0) {
    return Again(DirectRefusal::kUnsettled);
  }
  return Check(/*found=*/false);
}

// (b) The record, where its segment is believed to be.
RemoteLookup::Next RemoteLookup::LookAt(std::uint64_t slot) {
  slot_word_ = slot;
  const int offset_bits = partition_.view_.block_shift - 3;
  const std::uint64_t location = storage::SlotLocation(slot);
  const std::uint64_t index = location >> offset_bits;
  const auto known = partition_.core_->segments.find(index);
  if (known == partition_.core_->segments.end()) return FetchSegment(index);
  if ((known->second.word & storage::kSegmentResident) == 0) {
    // The segment may be back by now. One look in several is worth a round trip.
    partition_.core_->segments.erase(known);
    return Refuse(DirectRefusal::kNotResident);
  }
  if (believed_count_ == kSegmentsMax) return Refuse(DirectRefusal::kUnsettled);
  const std::uint64_t page = index / storage::kSegmentEntriesPerPage;
  believed_[believed_count_++] = {
      index,
      partition_.core_->pages[page] +
          index % storage::kSegmentEntriesPerPage * sizeof(SegmentEntry),
      known->second};
  const std::uint64_t segment_bytes = 1ull << partition_.view_.block_shift;
  const std::uint64_t in_segment = location * storage::kRecordAlign & (segment_bytes - 1);
  const std::uint64_t frame = known->second.frame;
  record_max_ = segment_bytes - in_segment;
  if (frame % segment_bytes != 0 || record_max_ < sizeof(RecordHeader)) {
    return Again(DirectRefusal::kUnsettled);
  }
  record_offset_ = frame + in_segment;
  record_bytes_ = std::min(
      {std::uint64_t{record_room_}, record_max_,
       sizeof(RecordHeader) + item_.key.size() + (item_.value_wanted ? kFirstValueBytes : 0)});
  const Believed& believed = believed_[believed_count_ - 1];
  if (!WantSlot() || !Want(record_offset_, record_bytes_, record_) ||
      !Want(believed.offset + offsetof(SegmentEntry, frame), sizeof fixed_.frame_again,
            &fixed_.frame_again)) {
    return Next::kDone;
  }
  return Waiting(Stage::kRecord);
}

RemoteLookup::Next RemoteLookup::OnRecord() {
  const Believed& believed = believed_[believed_count_ - 1];
  if (fixed_.frame_again != believed.entry.frame) {
    partition_.core_->segments.erase(believed.index);
    return Again(DirectRefusal::kUnsettled);
  }
  std::memcpy(&header_, record_, sizeof header_);
  if (header_.sequence % 2 != 0) return Again(DirectRefusal::kUnsettled);
  const bool is_large = header_.type == RecordType::kPutExtent;
  if (header_.type != RecordType::kPut && !is_large) return Again(DirectRefusal::kUnsettled);
  const std::uint64_t stored_bytes = is_large ? 0 : header_.value_bytes;
  if (storage::RecordBytes(header_.key_bytes, stored_bytes, header_.flags) > record_max_) {
    return Again(DirectRefusal::kUnsettled);
  }
  const bool is_its =
      header_.key_bytes == item_.key.size() &&
      record_bytes_ >= sizeof(RecordHeader) + item_.key.size() &&
      std::memcmp(record_ + sizeof(RecordHeader), item_.key.data(), item_.key.size()) == 0;
  if (!is_its) return Scan();
  if (is_large) return Refuse(DirectRefusal::kLargeValue);
  // By this machine's time, which is not the owner's.
  if ((header_.flags & storage::kRecordExpiry) != 0) return Refuse(DirectRefusal::kExpired);
  item_.read.value_bytes = header_.value_bytes;
  if (!item_.value_wanted) return OnValue();
  if (item_.to.size() < header_.value_bytes) return Refuse(DirectRefusal::kNoRoom);
  const std::size_t all = sizeof(RecordHeader) + header_.key_bytes + header_.value_bytes;
  if (all > record_room_) return Refuse(DirectRefusal::kLargeValue);
  changes_in_place_ =
      (partition_.view_.flags & DirectView::kInPlace) != 0 && header_.value_bytes < kInPlaceBelow;
  // (c) A card may have read the value before the header. Now the header is known, so read again.
  if (changes_in_place_) {
    if (!WantSlot() || !Want(record_offset_, all, record_)) return Next::kDone;
    return Waiting(Stage::kValue);
  }
  if (all > record_bytes_) {
    if (!Want(record_offset_ + record_bytes_, all - record_bytes_, record_ + record_bytes_)) {
      return Next::kDone;
    }
    return Waiting(Stage::kValue);
  }
  return OnValue();
}

RemoteLookup::Next RemoteLookup::OnValue() {
  if (fixed_.slot_again != slot_word_) return Again(DirectRefusal::kUnsettled);
  return Check(/*found=*/true);
}

// (d) The words that must not have changed.
RemoteLookup::Next RemoteLookup::Check(bool found) {
  found_ = found;
  const std::uint64_t life = partition_.view_.core_root + offsetof(SharedRoot, life);
  if (!Want(partition_.view_.root, sizeof fixed_.guard_again, &fixed_.guard_again) ||
      !Want(life, sizeof fixed_.life, &fixed_.life)) {
    return Next::kDone;
  }
  if (!found && buckets_ != 0 &&
      !Want(bucket_offsets_[0] + offsetof(Bucket, header), sizeof fixed_.home_again,
            &fixed_.home_again)) {
    return Next::kDone;
  }
  for (std::size_t i = 0; i < believed_count_; ++i) {
    if (!Want(believed_[i].offset, sizeof(SegmentEntry), &fixed_.segments_again[i])) {
      return Next::kDone;
    }
  }
  if (changes_in_place_ && !Want(record_offset_, sizeof(RecordHeader), &fixed_.header_again)) {
    return Next::kDone;
  }
  return Waiting(Stage::kCheck);
}

RemoteLookup::Next RemoteLookup::OnCheck() {
  if (fixed_.guard_again != guard_) return Again(DirectRefusal::kUnsettled);
  if ((fixed_.life & storage::kOwnerDied) != 0) return Refuse(DirectRefusal::kNoLease);
  if (IsFilter()) {
    item_.read.outcome = filter_has_ ? DirectRead::Outcome::kFound : DirectRead::Outcome::kNotFound;
    return Next::kDone;
  }
  for (std::size_t i = 0; i < believed_count_; ++i) {
    if (fixed_.segments_again[i].word == believed_[i].entry.word) continue;
    partition_.core_->segments[believed_[i].index] = fixed_.segments_again[i];
    return Again(DirectRefusal::kUnsettled);
  }
  if (!found_) {
    if (fixed_.home_again != fixed_.buckets[0].header) return Again(DirectRefusal::kUnsettled);
    item_.read.outcome = DirectRead::Outcome::kNotFound;
    return Next::kDone;
  }
  if (changes_in_place_ && !SameHeader(header_, fixed_.header_again)) {
    return Again(DirectRefusal::kUnsettled);
  }
  item_.read.outcome = DirectRead::Outcome::kFound;
  item_.read.value_flags = header_.flags & storage::kCounterFlags;
  item_.read.version = header_.lsn;
  if (item_.value_wanted && header_.value_bytes != 0) {
    std::memcpy(item_.to.data(), record_ + sizeof(RecordHeader) + header_.key_bytes,
                header_.value_bytes);
  }
  return Next::kDone;
}

// ---- Believed facts about a segment. After a refresh all is read again: a slot is proof only if
// it was read after the segment's entry.

RemoteLookup::Next RemoteLookup::FetchSegment(std::uint64_t index) {
  if (refreshes_++ == kRefreshesMax) return Refuse(DirectRefusal::kUnsettled);
  wanted_segment_ = index;
  const auto page = partition_.core_->pages.find(index / storage::kSegmentEntriesPerPage);
  if (page != partition_.core_->pages.end()) return GoToSegment(page->second);
  if (!Want(partition_.view_.core_root, sizeof(SharedRoot), &fixed_.core_root)) return Next::kDone;
  return Waiting(Stage::kCoreRoot);
}

RemoteLookup::Next RemoteLookup::OnCoreRoot() {
  const std::uint64_t word = fixed_.core_root.directory;
  const std::uint64_t page = wanted_segment_ / storage::kSegmentEntriesPerPage;
  if (page >= directory::Room(word)) return Again(DirectRefusal::kUnsettled);
  const std::uint64_t offset = directory::EntryOffset(word, page);
  if (const auto* const entry = InRoot(fixed_.core_root, partition_.view_.core_root, offset)) {
    fixed_.entry = *entry;
    return OnCorePage();
  }
  if (!Want(offset, sizeof fixed_.entry, &fixed_.entry)) return Next::kDone;
  return Waiting(Stage::kCorePage);
}

RemoteLookup::Next RemoteLookup::OnCorePage() {
  const std::uint64_t offset = fixed_.entry;
  if (offset == 0 || offset % sizeof(SegmentEntry) != 0) return Again(DirectRefusal::kUnsettled);
  partition_.core_->pages[wanted_segment_ / storage::kSegmentEntriesPerPage] = offset;
  return GoToSegment(offset);
}

RemoteLookup::Next RemoteLookup::GoToSegment(std::uint64_t page) {
  const std::uint64_t offset =
      page + wanted_segment_ % storage::kSegmentEntriesPerPage * sizeof(SegmentEntry);
  if (!Want(offset, sizeof(SegmentEntry), &fixed_.segment)) return Next::kDone;
  return Waiting(Stage::kSegment);
}

RemoteLookup::Next RemoteLookup::OnSegment() {
  partition_.core_->segments[wanted_segment_] = fixed_.segment;
  --attempts_;
  return Again(DirectRefusal::kUnsettled);
}

// ---- Filters.

RemoteLookup::Next RemoteLookup::GoToLanes(std::uint64_t begin) {
  filter_has_ = false;
  if (begin == 0) return Check(/*found=*/false);  // No value was inserted there.
  const std::uint64_t split_blocks = partition_.view_.split_blocks;
  const std::uint64_t block_bytes =
      std::min({split_blocks * kSplitBlockBytes, std::uint64_t{limits::kFilterBlockBytes},
                std::uint64_t{1} << partition_.view_.block_shift});
  const std::uint64_t at = SplitBlockOf(hash_, split_blocks) * kSplitBlockBytes;
  if (!Want(begin + at % block_bytes, kSplitBlockBytes, fixed_.lanes)) return Next::kDone;
  return Waiting(Stage::kLanes);
}

RemoteLookup::Next RemoteLookup::OnLanes() {
  std::uint32_t absent = 0;
  for (int lane = 0; lane < kSplitBlockLanes; lane += 2) {
    const std::uint64_t two = fixed_.lanes[lane / 2];
    absent |= SplitBlockBit(hash_, lane) & ~static_cast<std::uint32_t>(two);
    absent |= SplitBlockBit(hash_, lane + 1) & ~static_cast<std::uint32_t>(two >> 32);
  }
  filter_has_ = absent == 0;
  return Check(filter_has_);
}

}  // namespace tidepool::internal
