// The log of one core: appends records to streams of segments, and keeps account of what is dead.
//
// HashStore (through Partition::Apply) and Compactor -> [Log] -> SegmentTable. A log holds the
// records of all partitions of its core.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "proto/base/ids.h"
#include "storage/core_memory.h"
#include "storage/layout.h"
#include "storage/log_record.h"
#include "storage/segment.h"

namespace tidepool::storage {

// What making room did.
enum class Room : std::uint8_t {
  kReady,  // There is room; nothing has moved.
  kMoved,  // There may be room now, but records have moved: look everything up again.
  kNone,   // Memory is used up; nothing has changed that a caller could see.
};

// Wins memory back when the log has none: the compactor.
class Reclaimer {
 public:
  virtual ~Reclaimer() = default;
  // Works until at least one block can be had. False: nothing (more) can be won. May move records.
  virtual bool ReclaimBlock() = 0;
};

// Owner core only.
//
// Invariants: a segment's live bytes are the sizes of its records that an index refers to and its
// kept tombstones; a segment is freed only when it has none and no pin; the bytes of a published
// record change only as HashStore's in-place updates do.
class Log {
 public:
  Log(CoreMemory& memory, CoreId core);

  void set_reclaimer(Reclaimer* reclaimer) { reclaimer_ = reclaimer; }
  CoreMemory& memory() { return memory_; }
  SegmentTable& segments() { return segments_; }
  const SegmentTable& segments() const { return segments_; }
  std::uint64_t segment_bytes() const { return segment_bytes_; }
  std::uint64_t extent_threshold_bytes() const { return ExtentThresholdBytes(segment_bytes_); }

  RecordHeader* At(std::uint64_t location) const { return segments_.At(location); }

  // ---- Reading a record's parts.
  static Bytes KeyOf(const RecordHeader& record) {
    return {reinterpret_cast<const std::byte*>(&record + 1), record.key_bytes};
  }
  // What of the value the record itself stores (for an extent: numbers, then the remainder).
  Bytes StoredOf(const RecordHeader& record) const {
    return {reinterpret_cast<const std::byte*>(&record + 1) + record.key_bytes,
            static_cast<std::size_t>(StoredBytes(record))};
  }
  std::uint64_t StoredBytes(const RecordHeader& record) const {
    if (record.type == RecordType::kPut) [[likely]]
      return record.value_bytes;
    if (record.type != RecordType::kPutExtent) return 0;
    return ShapeOfExtent(record.value_bytes, segment_bytes_).stored_bytes();
  }
  std::uint64_t BytesOf(const RecordHeader& record) const {
    return RecordBytes(record.key_bytes, StoredBytes(record), record.flags);
  }
  // 0: never.
  std::uint64_t ExpiryOf(const RecordHeader& record) const {
    if ((record.flags & kRecordExpiry) == 0) [[likely]]
      return 0;
    return LoadUnaligned<std::uint64_t>(reinterpret_cast<const std::byte*>(&record) +
                                        ExpiryOffset(record));
  }
  std::uint64_t ExpiryOffset(const RecordHeader& record) const {
    return RecordBytes(record.key_bytes, StoredBytes(record), 0);
  }
  // The extent's segments are copied: in the record they are not aligned.
  void ExtentSegmentsOf(const RecordHeader& record, std::vector<std::uint32_t>& segments) const;
  Bytes ExtentRemainderOf(const RecordHeader& record) const;

  // ---- Appending.
  static std::uint8_t FlagsOf(const LogRecord& change);
  std::uint64_t BytesFor(const LogRecord& change) const;
  // Makes sure that a record of `bytes` can be appended to `stream`. kMoved only if it had to
  // reclaim.
  Room MakeRoom(Stream stream, std::uint64_t bytes, MemoryClass memory_class) {
    if (open_[static_cast<int>(stream)].left >= bytes) [[likely]]
      return Room::kReady;
    return RollSegment(stream, bytes, memory_class);
  }
  // Room must have been made. Returns its location; the record is not yet referred to by anything.
  std::uint64_t Append(Stream stream, const LogRecord& change, RecordType type, Lsn lsn);
  // Copies a record as it is to the stream of relocated ones, for which room must have been made.
  std::uint64_t Relocate(std::uint64_t location);

  // Some tombstones need not be kept any more: segments begun before now may hold such.
  void NoteTombstoneFloor() { floor_moved_at_ = segments_.next_number(); }
  // Bytes of a segment that compaction can win, at best.
  std::uint64_t WinnableBytes(const Segment& segment) const {
    // The unused end of a sealed segment is not dead: copying its records would win nothing.
    const std::uint64_t dead = segment.used - sizeof(SegmentHeader) - segment.live;
    return segment.number < floor_moved_at_ ? dead + segment.tombstones : dead;
  }

  // ---- Dying.
  // The record at `location` counts no more. Extent segments are the caller's matter.
  void Kill(std::uint64_t location);
  // A record's segment has a record that expires at `expiry_ms` (set in place).
  void NoteExpiry(std::uint64_t location, std::uint64_t expiry_ms);
  std::uint64_t next_expiry_ms() const { return next_expiry_ms_; }
  void set_next_expiry_ms(std::uint64_t at_ms) { next_expiry_ms_ = at_ms; }

  // ---- Extents.
  // A fresh extent segment, or 0. May move records.
  std::uint32_t AllocateExtentSegment();
  // The published extent now consists of these: sets what is live in each.
  void AdoptExtent(std::span<const std::uint32_t> segments, std::uint64_t value_bytes);
  void KillExtentSegment(std::uint32_t index);
  // A piece of the extent's value, at most to the end of the segment that holds `offset`.
  MutableBytes ExtentBytes(std::uint32_t index, std::uint64_t offset_in_segment) const {
    return {segments_.Base(index) + kExtentHeaderBytes + offset_in_segment,
            ExtentSegmentCapacity(segment_bytes_) - offset_in_segment};
  }

  // ---- Pins.
  void Pin(std::uint32_t segment) { ++segments_[segment].pins; }
  void Unpin(std::uint32_t segment);
  bool IsPinned(std::uint64_t location) const {
    return segments_[segments_.IndexOf(location)].pins != 0;
  }

  // A chunk of the core's memory, reclaiming if need be. 0: memory is used up. May move records.
  std::uint64_t AllocateChunk(std::uint64_t bytes);

  // ---- Reclaiming.
  // True: a block can be had. May move records.
  bool Reclaim() { return !reclaiming_ && reclaimer_ != nullptr && reclaimer_->ReclaimBlock(); }
  // Frees the dead segments that have no pin. Ends the validity of views.
  void FreeDead();
  // A compacted segment, which must have no live bytes left.
  void FinishCompacted(std::uint32_t index);
  // While set, making room never reclaims: the reclaimer itself is at work.
  void set_reclaiming(bool reclaiming) { reclaiming_ = reclaiming; }
  bool reclaiming() const { return reclaiming_; }

  std::uint64_t live_bytes() const { return live_bytes_; }
  std::uint64_t tombstone_bytes() const { return tombstone_bytes_; }
  // Of segments, without what open ones can still take and what uploads under way have.
  std::uint64_t dead_bytes() const;
  // Extent segments that no record has yet.
  std::uint64_t unpublished_segments() const { return unpublished_segments_; }

 private:
  struct Open {
    std::uint32_t index = 0;
    std::uint32_t left = 0;
  };

  std::uint32_t BeginExtentSegment();
  Room RollSegment(Stream stream, std::uint64_t bytes, MemoryClass memory_class);
  std::byte* TakeSpace(Stream stream, std::uint64_t bytes, std::uint64_t* location);
  void CountTombstone(std::uint64_t location, std::uint64_t bytes);
  void Seal(std::uint32_t index);
  void MarkDead(std::uint32_t index);

  CoreMemory& memory_;
  const std::uint64_t segment_bytes_;
  SegmentTable segments_;
  Open open_[kStreamCount];
  Reclaimer* reclaimer_ = nullptr;
  bool reclaiming_ = false;
  std::vector<std::uint32_t> dead_;
  std::uint64_t live_bytes_ = 0;
  std::uint64_t tombstone_bytes_ = 0;
  std::uint64_t unpublished_segments_ = 0;
  std::uint64_t next_expiry_ms_ = kNeverMs;
  std::uint64_t floor_moved_at_ = 0;  // A segment number.
};

// While it lives, making room takes from the reserve and never reclaims: what the compactor and the
// sweep stand on does not move.
class ReclaimingScope {
 public:
  explicit ReclaimingScope(Log& log) : log_(log) {
    TP_CHECK(!log.reclaiming());
    log_.set_reclaiming(true);
  }
  ~ReclaimingScope() { log_.set_reclaiming(false); }
  ReclaimingScope(const ReclaimingScope&) = delete;
  ReclaimingScope& operator=(const ReclaimingScope&) = delete;

 private:
  Log& log_;
};

}  // namespace tidepool::storage
