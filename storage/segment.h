// The segments of one core: which memory each has, how full and how alive it is, and its shared
// word.
//
// Log -> [SegmentTable] -> CoreMemory. A location is turned into an address here, on every
// operation.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "proto/base/check.h"
#include "proto/base/ids.h"
#include "storage/core_memory.h"
#include "storage/layout.h"
#include "storage/shared_directory.h"

namespace tidepool::storage {

// Where new records go, and where compaction moves them. A segment is of one stream, so that what
// may leave DRAM lies apart from what must stay.
enum class Stream : std::uint8_t {
  kVolatile = 0,        // Stays in DRAM.
  kRelocated = 1,       // The same, moved by compaction.
  kSpill = 2,           // Goes to a device when DRAM gets short.
  kSpillRelocated = 3,  // The same, moved by compaction.
  kCache = 4,           // Copies of records on a device: evicted when DRAM gets short.
  // Goes to a device soon, and outlives its daemon there; may leave DRAM.
  kDurable = kFirstDurableStream,
  kDurableRelocated = kLastDurableStream,  // The same, moved by compaction.
};
inline constexpr int kStreamCount = 7;
static_assert(kLastDurableStream == kStreamCount - 1);
constexpr bool IsDurable(Stream stream) { return stream >= Stream::kDurable; }
// Goes to a device when DRAM gets short, and only then.
constexpr bool IsSpill(Stream stream) {
  return stream == Stream::kSpill || stream == Stream::kSpillRelocated;
}
constexpr bool MaySpill(Stream stream) { return IsSpill(stream) || IsDurable(stream); }
constexpr Stream RelocatedOf(Stream stream) {
  if (IsDurable(stream)) return Stream::kDurableRelocated;
  return MaySpill(stream) ? Stream::kSpillRelocated : Stream::kRelocated;
}

enum class SegmentState : std::uint8_t {
  kFree,
  kOpen,        // A stream appends to it.
  kSealed,      // Full; a candidate for compaction.
  kCompacting,  // Its live records are being moved out.
  kExtent,      // Holds a piece of one large value, or of one being written; may have a slot too.
  kWriting,     // Frozen: on its way to the device, and readable here until it is there.
  kSpilled,     // On the device only.
  kDead,        // Nothing in it is referred to: freed when no pin is left.
};

inline constexpr std::uint64_t kNeverMs = std::numeric_limits<std::uint64_t>::max();

// The owner's bookkeeping of a segment; not shared.
struct Segment {
  std::uint64_t number = 0;                // Grows with each segment begun: its age.
  std::uint64_t frame = 0;                 // Node offset of its memory.
  std::uint64_t expiry_min_ms = kNeverMs;  // No record in it expires earlier.
  std::uint32_t used = 0;                  // Bytes from its start, header included.
  std::uint32_t live = 0;                  // Bytes of records that count.
  std::uint32_t tombstones = 0;            // Part of live.
  std::uint32_t pins = 0;                  // Views under way: no reuse, no change in place.
  std::uint32_t records = 0;               // That count, tombstones included; of an extent, 1.
  std::uint32_t record_bytes_max = 0;      // No record in it is larger.
  std::uint32_t slot = 0;                  // Of the device, plus 1; 0: it has none.
  std::uint32_t frozen_to = 0;             // What is below this offset never changes any more.
  std::uint32_t written_to = 0;  // Of a durable stream: what is below was handed to the device,
  std::uint32_t writes = 0;      // in so many pieces that are not there yet.
  std::uint32_t tombstone_records = 0;  // Part of records.
  std::uint32_t rewritten = 0;          // Bytes that came here from a device, live or not.
  // Compaction was here, and ended for want of memory: nothing counts of what is below. To a second
  // one a tombstone there would look as if it did.
  std::uint32_t compacted_to = 0;
  SegmentState state = SegmentState::kFree;
  Stream stream = Stream::kVolatile;
  bool guessed = false;  // `live` is about right: records were killed unread.
  bool unsound = false;  // The device does not give it back: never compacted.
  bool extent = false;
  bool marked = false;  // Of a durable stream: sealed, and all of it is below a durable mark.
  bool read = false;    // Of an extent: since it had its last chance to leave.

  // To be read of a record of unknown size at first: twice the average, and at least 4 KiB, which
  // cost a device nothing. As much as the largest record has would be 1 MiB each for records of 100
  // bytes beside a large one: a walk over 40 MB of such has read 16 GB.
  std::uint32_t ExpectedRecordBytes() const {
    return std::min(record_bytes_max, std::max(2 * (used / std::max(records, 1u)), 4096u));
  }
};

// Owner core only. An index is used again after Free; the shared word's generation tells its lives
// apart. Index 0 is never given out.
class SegmentTable {
 public:
  // `spilled_max`: segments that may be on devices. `incarnation`: of the node, below 2^32; what it
  // writes is told by it, and by the numbers of its segments, from what was written before.
  SegmentTable(CoreMemory& memory, CoreId core, std::uint64_t spilled_max,
               std::uint64_t incarnation);
  ~SegmentTable();
  SegmentTable(const SegmentTable&) = delete;
  SegmentTable& operator=(const SegmentTable&) = delete;

  // Largest number of segments that locations of 40 bits can name.
  static std::uint64_t CountMax(std::uint64_t segment_bytes) {
    return 1ull << (kLocationBits - OffsetBits(segment_bytes));
  }

  // Where direct readers find it, from now on. Before the first segment. Must outlive it.
  void ShowIn(SharedRoot* root) { pages_.ShowIn(root); }

  // A fresh segment with its header written, or 0: memory is used up.
  std::uint32_t Begin(SegmentKind kind, Stream stream, MemoryClass memory_class);
  // A segment that is on a device since an earlier incarnation. 0: memory is used up.
  std::uint32_t AddSpilled(std::uint64_t number, Stream stream);
  // Raises the generation, then gives the memory back, if it has any. The segment must be kDead and
  // without pins.
  void Free(std::uint32_t index);
  // Its bytes are on the device: as Free for readers in other processes, but the segment lives on.
  // It must be kWriting and without pins.
  void LeaveMemory(std::uint32_t index);
  // The other way: its bytes have been read into `frame`, a block of its memory. Sealed again, or
  // an extent.
  void ReturnToMemory(std::uint32_t index, std::uint64_t frame);

  Segment& operator[](std::uint32_t index) {
    TP_DCHECK(index < segments_.size());
    return segments_[index];
  }
  const Segment& operator[](std::uint32_t index) const { return segments_[index]; }
  // Indices below this may be in use.
  std::uint32_t end() const { return static_cast<std::uint32_t>(segments_.size()); }
  std::uint64_t in_use() const { return in_use_; }      // In DRAM or not.
  std::uint64_t resident() const { return resident_; }  // Of these, in DRAM.
  std::uint64_t next_number() const { return next_number_; }
  std::uint64_t first_number() const { return first_number_; }  // Of this incarnation.
  // In segments begun since, itself included. Those of earlier incarnations are as old as the first
  // of this one: between their numbers lies nothing that could be counted. Never 0, so that what a
  // start has found is worth something before anything new was begun.
  std::uint64_t AgeOf(const Segment& segment) const {
    return next_number_ - std::max(segment.number, first_number_) + 1;
  }

  // Null: its bytes are not in DRAM.
  std::byte* Base(std::uint32_t index) const { return bases_[index]; }
  // Location to address, for those who do it on every operation: one load behind constants. Valid
  // as long as the table, whose vectors never move.
  struct Locator {
    std::byte* const* bases;
    int offset_bits;
    std::uint64_t offset_mask;
    RecordHeader* At(std::uint64_t location) const {
      return reinterpret_cast<RecordHeader*>(bases[location >> offset_bits] +
                                             (location & offset_mask) * kRecordAlign);
    }
    // Null: it is not in DRAM.
    RecordHeader* Find(std::uint64_t location) const {
      std::byte* const base = bases[location >> offset_bits];
      if (base == nullptr) [[unlikely]]
        return nullptr;
      return reinterpret_cast<RecordHeader*>(base + (location & offset_mask) * kRecordAlign);
    }
  };
  Locator locator() const { return {bases_.data(), offset_bits_, offset_mask_}; }
  RecordHeader* At(std::uint64_t location) const { return locator().At(location); }
  RecordHeader* Find(std::uint64_t location) const { return locator().Find(location); }
  std::uint32_t IndexOf(std::uint64_t location) const {
    return static_cast<std::uint32_t>(location >> offset_bits_);
  }
  std::uint32_t OffsetOf(std::uint64_t location) const {
    return static_cast<std::uint32_t>((location & offset_mask_) * kRecordAlign);
  }
  std::uint64_t LocationOf(std::uint32_t index, std::uint32_t offset) const {
    return std::uint64_t{index} << offset_bits_ | offset / kRecordAlign;
  }
  // The shared entry of a segment.
  const SegmentEntry& Entry(std::uint32_t index) const {
    return entries_[index / kSegmentEntriesPerPage][index % kSegmentEntriesPerPage];
  }

 private:
  static int OffsetBits(std::uint64_t segment_bytes) {
    return std::countr_zero(segment_bytes / kRecordAlign);
  }
  std::uint32_t TakeIndex();
  void ShowMemory(std::uint32_t index, std::uint64_t frame);
  void HideMemory(std::uint32_t index);

  CoreMemory& memory_;
  const CoreId core_;
  const int offset_bits_;
  const std::uint64_t offset_mask_;
  std::vector<std::byte*> bases_;  // Apart from segments_: the only part that a read touches.
  std::vector<Segment> segments_;
  std::vector<std::uint32_t> free_;
  std::vector<SegmentEntry*> entries_;  // Pages in arenas; never given back before the end.
  SharedDirectory pages_;               // The same, for direct readers.
  const std::uint64_t incarnation_;
  const std::uint64_t first_number_;
  std::uint64_t next_number_;
  std::uint64_t in_use_ = 0;
  std::uint64_t resident_ = 0;
};

}  // namespace tidepool::storage
