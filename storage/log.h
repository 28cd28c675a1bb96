// The log of one core: appends records to streams of segments, and keeps account of what is dead.
//
// HashStore (through Partition::Apply) and Compactor -> [Log] -> SegmentTable. A log holds the
// records of all partitions of its core.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "proto/base/ids.h"
#include "proto/base/status.h"
#include "storage/core_memory.h"
#include "storage/layout.h"
#include "storage/log_record.h"
#include "storage/segment.h"

namespace tidepool::storage {

class FetchedRecords;
class ValueWriter;

// Of a segment; above all that there are.
inline constexpr std::uint64_t kNoNumber = ~0ull;

// What making room did.
enum class Room : std::uint8_t {
  kReady,  // There is room; nothing has moved.
  kMoved,  // There may be room now, but records have moved: look everything up again.
  kNone,   // Memory is used up; nothing has changed that a caller could see.
};

// The room that a refused operation lacks.
struct Refusal {
  std::uint64_t blocks = 0;            // 0: nothing was refused.
  std::shared_ptr<Reservation> waits;  // Null: the operation has yet to reserve its blocks.
  explicit operator bool() const { return blocks != 0; }
};

// Wins memory back when the log has none: the compactor.
class Reclaimer {
 public:
  virtual ~Reclaimer() = default;
  // Works until at least one block can be had. False: nothing (more) can be won. May move records.
  virtual bool ReclaimBlock() = 0;
};

// What takes segments that leave DRAM: the spiller.
class SpillTarget {
 public:
  virtual ~SpillTarget() = default;
  // Memory will come free though nothing is deleted, so that who needs some had better wait.
  virtual bool MakesRoom() const = 0;
  // Segments can still be written.
  virtual bool HasSlots() const = 0;
  // A segment whose memory can be had is full: of a stream that may leave DRAM, or of the read
  // cache.
  virtual void Offer(std::uint32_t segment) = 0;
  // A segment that has a place on the device is gone.
  virtual void ReleaseSlot(std::uint32_t slot) = 0;
};

// What makes segments of durable streams durable: the checkpointer.
class DurableTarget {
 public:
  virtual ~DurableTarget() = default;
  // For a segment that begins. kNoSlot: none is to be had.
  virtual std::uint64_t TakeSlot(MemoryClass memory_class) = 0;
  // Nothing in it changes any more, be it sealed or of a published extent: it goes to its slot.
  virtual void NoteSealed(std::uint32_t segment) = 0;
  // Its segment is gone. `number`: of that segment, if the device may have some of it; else 0.
  virtual void ReleaseSlot(std::uint32_t slot, std::uint64_t number) = 0;
  // The least number of a segment that is gone and may still count after a crash; kNoNumber: none.
  virtual std::uint64_t OldestReleased() const = 0;
  // Segments are on their way to the device, and may leave DRAM then.
  virtual bool IsWriting() const = 0;
  // Compaction is to keep so many slots free. 0: nothing is durable, or will be.
  virtual std::uint64_t SlotsWanted() const = 0;
  // Slots of segments that are gone are on their way back.
  virtual bool IsReleasing() const = 0;
};

// Owner core only.
//
// A record that has left DRAM is met in two steps. Look() does not find it, notes that it is wanted
// and says so by blocked(): the operation must then end without having changed anything. Its caller
// has the wanted records fetched, sets them up (FetchedScope), and runs the operation again.
//
// Invariants: a segment's live bytes are the sizes of its records that an index refers to and its
// kept tombstones; a segment is freed only when it has none and no pin; the bytes of a published
// record change only as HashStore's in-place updates do.
class Log {
 public:
  // `spilled_max`, `incarnation`: as SegmentTable.
  Log(CoreMemory& memory, CoreId core, std::uint64_t spilled_max, std::uint64_t incarnation);

  void set_reclaimer(Reclaimer* reclaimer) { reclaimer_ = reclaimer; }
  // Null: nothing leaves DRAM.
  void set_spill_target(SpillTarget* target) { spill_target_ = target; }
  // With a spill target only. Null: no stream is durable.
  void set_durable_target(DurableTarget* target) { durable_target_ = target; }
  bool spills() const { return spill_target_ != nullptr; }
  bool makes_room() const { return spills() && spill_target_->MakesRoom(); }
  CoreMemory& memory() { return memory_; }
  SegmentTable& segments() { return segments_; }
  const SegmentTable& segments() const { return segments_; }
  std::uint64_t segment_bytes() const { return segment_bytes_; }
  std::uint64_t extent_threshold_bytes() const { return ExtentThresholdBytes(segment_bytes_); }

  // Of a record that is in DRAM.
  RecordHeader* At(std::uint64_t location) const {
    TP_DCHECK(segments_.Find(location) != nullptr);
    return segments_.At(location);
  }
  // Wherever it is: in DRAM, or fetched for the operation at hand. Null: it is wanted. What was
  // fetched is never changed (see IsChangeable).
  RecordHeader* Look(std::uint64_t location) {
    RecordHeader* const record = segments_.Find(location);
    return record != nullptr ? record : LookFetched(location);
  }
  // The same; what is not there is not wanted.
  RecordHeader* Peek(std::uint64_t location) const;
  // The present operation has met what must be fetched first, or cannot be read at all.
  bool blocked() const { return blocked_; }
  const std::vector<std::uint64_t>& wanted() const { return wanted_; }
  // What FetchedScope has set up; null: nothing.
  const FetchedRecords* fetched() const { return fetched_; }
  // Fetched for the present operation, and it cannot be read: a walk passes it, and counts it.
  bool IsUnreadable(std::uint64_t location) const;
  // Some of what was fetched is.
  bool meets_unreadable() const;
  // Before an operation, where others may have run since something was fetched.
  void BeginRun() const {
    if (fetched_ != nullptr) [[unlikely]]
      ForgetUsed();
  }
  // What lies behind what an operation has met, to be read with it, as far as that makes sense:
  // does not block, and tells no loss.
  void WantAhead(std::uint64_t location);
  bool MayWantMore() const;
  // Other than kOk: what it has met cannot be read. kDataLoss, kDeviceError.
  StatusCode lost() const { return lost_; }
  // What was wanted since the last call, which unblocks.
  std::vector<std::uint64_t> TakeWanted();
  // It did without.
  void Unblock();
  // Notes a refusal for want of memory: `blocks` would do, or the granting of `waits`.
  void NoteRefused(std::uint64_t blocks = kOperationBlocks,
                   std::shared_ptr<Reservation> waits = nullptr) {
    refusal_.blocks = std::max(refusal_.blocks, blocks);
    if (waits != nullptr) refusal_.waits = std::move(waits);
  }
  const Refusal& refusal() const { return refusal_; }
  Refusal TakeRefused() { return std::exchange(refusal_, {}); }
  // What was fetched of it; null if it is in DRAM.
  std::shared_ptr<const std::byte> FetchedBuffer(std::uint64_t location) const;

  // ---- Reading a record's parts.
  static Bytes KeyOf(const RecordHeader& record) {
    return {reinterpret_cast<const std::byte*>(&record + 1), record.key_bytes};
  }
  // What of the value the record itself stores (for an extent: links, then the remainder).
  Bytes StoredOf(const RecordHeader& record) const {
    return {reinterpret_cast<const std::byte*>(&record + 1) + record.key_bytes,
            static_cast<std::size_t>(StoredBytes(record))};
  }
  std::uint64_t StoredBytes(const RecordHeader& record) const {
    if (record.type == RecordType::kPut) [[likely]]
      return record.value_bytes;
    if (record.type != RecordType::kPutExtent) {
      const bool has_value = record.type == RecordType::kPad || record.type == RecordType::kLease;
      return has_value ? record.value_bytes : 0;
    }
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
  // Of the extent that the record at `location` names. 0: that one was lost with an earlier
  // incarnation's device.
  void ExtentSegmentsOf(std::uint64_t location, const RecordHeader& record,
                        std::vector<std::uint32_t>& segments) const;
  Bytes ExtentRemainderOf(const RecordHeader& record) const;
  // The same of a record that need not be in DRAM. False: it names none.
  bool FindExtent(std::uint64_t location, std::vector<std::uint32_t>& segments) const;

  // ---- Appending.
  static std::uint8_t FlagsOf(const LogRecord& change);
  std::uint64_t BytesFor(const LogRecord& change) const;
  // A record as bytes, without its checksum: in a segment, or in the commit ring.
  static std::uint64_t EncodedBytes(const LogRecord& change, RecordType type);
  static void Encode(const LogRecord& change, RecordType type, Lsn lsn, std::uint64_t bytes,
                     std::byte* at);
  // Makes sure that a record of `bytes` can be appended to `stream`. kMoved only if it had to
  // reclaim.
  Room MakeRoom(Stream stream, std::uint64_t bytes, MemoryClass memory_class) {
    if (open_[static_cast<int>(stream)].left >= bytes) [[likely]]
      return Room::kReady;
    return RollSegment(stream, bytes, memory_class);
  }
  bool HasRoom(Stream stream, std::uint64_t bytes) const {
    return open_[static_cast<int>(stream)].left >= bytes;
  }
  // Room must have been made. Returns its location; the record is not yet referred to by anything.
  std::uint64_t Append(Stream stream, const LogRecord& change, RecordType type, Lsn lsn);
  // Where compaction moves a record to: the stream of relocated ones for its own.
  Stream RelocationStream(std::uint64_t location) const {
    return RelocatedOf(segments_[segments_.IndexOf(location)].stream);
  }
  // Copies a record as it is to its RelocationStream, for which room must have been made.
  std::uint64_t Relocate(std::uint64_t location);

  // ---- The read cache: copies of records whose home is on a device, or on its way there. An index
  // refers to the copy, which refers to its home; both are live. Neither is ever changed in place.
  // Room for a copy, if there is memory to spare. Moves nothing.
  bool MakeCacheRoom(std::uint64_t bytes);
  // Room must have been made. `record` is the home itself, as fetched or still in DRAM, or a copy.
  std::uint64_t AppendCopy(const RecordHeader& record, std::uint64_t home);
  // The copy counts no more; its home does.
  void DropCopy(std::uint64_t location) { KillOne(location, At(location)); }

  // Some tombstones need not be kept any more: segments begun before now may hold such.
  void NoteTombstoneFloor() { floor_moved_at_ = segments_.next_number(); }
  // Bytes of a segment that compaction can win, at best.
  std::uint64_t WinnableBytes(const Segment& segment) const {
    const std::uint64_t dead = segment.used - sizeof(SegmentHeader) - segment.live;
    // The unused end is not dead: behind large records the copies leave one as well, for ever. But
    // what is at most a quarter full fits beside others' rest: each kill of a daemon leaves one or
    // two such segments, and after a hundred they were the whole device. While somebody waits for
    // room, it leaves for a device: the segment with its copies would be sealed for the waiters
    // next, and so on.
    const bool is_sparse = segment.live <= segment_bytes() / 4;
    const bool leaves = IsSpill(segment.stream) && segment.state != SegmentState::kSpilled &&
                        memory_.pool().room_waits();
    const std::uint64_t end = is_sparse && !leaves ? segment_bytes() - segment.used : 0;
    return dead + end + (segment.number < floor_moved_at_ ? segment.tombstones : 0);
  }

  // ---- Dying.
  // The record at `location` counts no more. Extent segments are the caller's matter, who forgets
  // where they are (ForgetExtent) if they were not moved with a copy. One that is
  // on a device need not be fetched for that: its size is then taken for its segment's average.
  // With a copy goes its home.
  void Kill(std::uint64_t location);
  // A record's segment has a record that expires at `expiry_ms` (set in place).
  void NoteExpiry(std::uint64_t location, std::uint64_t expiry_ms);
  std::uint64_t next_expiry_ms() const { return next_expiry_ms_; }
  void set_next_expiry_ms(std::uint64_t at_ms) { next_expiry_ms_ = at_ms; }

  // ---- Extents.
  // A fresh extent segment, or 0. May move records.
  std::uint32_t AllocateExtentSegment();
  // Each has a place on the device from now on, before anything is said of it in a durable stream.
  // False: there are not so many.
  bool MakeExtentDurable(std::span<const std::uint32_t> segments);
  // The published extent now consists of these: sets what is live in each. `stream`: kSpill, if
  // they may leave DRAM; kDurable, if they go to their places (MakeExtentDurable).
  void AdoptExtent(std::span<const std::uint32_t> segments, std::uint64_t value_bytes,
                   Stream stream);
  void KillExtentSegment(std::uint32_t index);
  void ForgetExtent(std::uint64_t location) { extents_.erase(location); }
  // True: all of the value is in DRAM, and may be pinned. False: what is not is wanted, as by Look.
  bool LookExtent(std::uint64_t location, const RecordHeader& record);
  // What is behind the value's end may be written: a copy on a device counts no more. The segment
  // must be in DRAM. False: it is just being written.
  bool ThawExtent(std::uint32_t index);
  // A piece of the extent's value, at most to the end of the segment that holds `offset`.
  MutableBytes ExtentBytes(std::uint32_t index, std::uint64_t offset_in_segment) const {
    return {segments_.Base(index) + kExtentHeaderBytes + offset_in_segment,
            ExtentSegmentCapacity(segment_bytes_) - offset_in_segment};
  }

  // ---- Pins.
  void Pin(std::uint32_t segment) { ++segments_[segment].pins; }
  void Unpin(std::uint32_t segment);
  // Whether the record may be changed where it lies: its segment is in DRAM, not frozen and not
  // pinned.
  bool IsChangeable(std::uint64_t location) const {
    const Segment& segment = segments_[segments_.IndexOf(location)];
    return segment.pins == 0 && segment.frozen_to <= segments_.OffsetOf(location) &&
           segment.stream != Stream::kCache;
  }

  // A chunk of the core's memory, reclaiming if need be. 0: memory is used up. May move records.
  std::uint64_t AllocateChunk(std::uint64_t bytes);

  // ---- Reclaiming.
  // True: a block can be had. May move records.
  // While segments leave DRAM anyway nothing is compacted for it: who asks is to wait.
  bool Reclaim() {
    if (reclaiming_ || reclaimer_ == nullptr || makes_room()) return false;
    return reclaimer_->ReclaimBlock();
  }
  // Frees the dead segments that have no pin. Ends the validity of views.
  void FreeDead();
  // A compacted segment, which must have no live bytes left.
  void FinishCompacted(std::uint32_t index);

  // ---- Leaving DRAM, as the spiller does it.
  // Nothing in the segment, which must be sealed, changes any more. It has this place on the
  // device.
  void Freeze(std::uint32_t index, std::uint32_t slot);
  // A segment that is sealed, or sealed again.
  void Offer(std::uint32_t index) {
    if (!spills() || segments_[index].stream < Stream::kSpill) return;
    spill_target_->Offer(index);
  }
  // It could not be written: stays here.
  void Unfreeze(std::uint32_t index);
  // It is on the device. True: it has left DRAM; false: a view of it is still in use, ask again.
  bool LeaveMemory(std::uint32_t index);
  // An extent's that has not changed since it was written. False: a view of it is in use.
  bool LeaveUnwritten(std::uint32_t index);
  // It has been read back into `frame`, and is sealed again; an extent's may leave again.
  void ReturnToMemory(std::uint32_t index, std::uint64_t frame);
  // ---- Becoming durable, as the checkpointer does it.
  struct OpenEnd {
    std::uint32_t index = 0;  // 0: the stream has no open segment.
    std::uint32_t end = 0;    // Whole blocks, or no more than the header.
  };
  // What a durable stream has so far never changes any more: pads its open segment to a whole
  // block, or seals it if it is about full.
  OpenEnd Cut(Stream stream);
  // Whether something in the stream's open segment can still change.
  bool IsCut(Stream stream) const;
  // Nothing goes to durable streams from now on, and nothing changes there.
  void EndDurable();
  // What is on a device since an earlier incarnation: a segment, and a record in it that counts.
  std::uint32_t AdoptSegment(std::uint64_t number, Stream stream, std::uint32_t slot);
  void EndAdoptedSegment(std::uint32_t index, std::uint32_t used);
  struct AdoptedRecord {
    std::uint64_t location = 0;
    std::uint64_t expiry_ms = 0;
    std::uint32_t bytes = 0;
    bool tombstone = false;
  };
  void AdoptRecord(const AdoptedRecord& record);
  // The extent of the record at this location: segments that were adopted, 0 for those that are
  // lost.
  void AdoptExtentOf(std::uint64_t location, std::vector<std::uint32_t> segments,
                     std::uint64_t value_bytes);
  void DropIfDead(std::uint32_t index) {
    if (segments_[index].records == 0) MarkDead(index);
  }
  // What durable streams have so far gets its footers; what comes goes to other segments. False:
  // nothing becomes durable any more.
  bool SealDurable();
  // A partition is gone from this log, so that what the log has of it so far is not to come back
  // with one of the same id: what lies in segments with numbers below the one that it returns. 0:
  // it could not be noted.
  std::uint64_t NoteDrop(PartitionId id);
  // A partition begins that nothing in segments with numbers below lost_below() is of.
  void NoteBegin(PartitionId id);
  // Something was lost of segments with numbers below this one; 0: nothing. It concerns each
  // partition that may have had something in them.
  std::uint64_t lost_below() const { return lost_below_; }
  void NoteLoss(std::uint64_t below) { lost_below_ = std::max(lost_below_, below); }

  // ---- What tombstones are kept for.
  // The least number of a durable segment, `but` left out, that may count after a crash; kNoNumber:
  // there is none.
  std::uint64_t OldestDurable(std::uint32_t but) const;
  // The segment to be compacted next so that tombstones can go: the oldest durable one, once they
  // are more than four segments and than a quarter of what durable streams have: then 160 bytes are
  // moved for a tombstone of 40 that goes. 0: none, or not now. Looks at all segments.
  std::uint32_t OldestForTombstones();

  // While set, making room never reclaims: the reclaimer itself is at work.
  void set_reclaiming(bool reclaiming) { reclaiming_ = reclaiming; }
  bool reclaiming() const { return reclaiming_; }

  std::uint64_t live_bytes() const { return live_bytes_; }
  std::uint64_t spilled_live_bytes() const { return spilled_live_bytes_; }  // Part of live_bytes.
  std::uint64_t spilled_segments() const { return segments_.in_use() - segments_.resident(); }
  std::uint64_t tombstone_bytes() const { return tombstone_bytes_; }
  // Of changes that durable streams have taken up to where they were cut or sealed last, each once.
  std::uint64_t durable_bytes() const { return durable_bytes_; }
  // Of segments in DRAM, without what open ones can still take and what uploads under way have.
  std::uint64_t dead_bytes() const;
  // Of the largest value so far that may leave DRAM.
  std::uint64_t extent_segments_max() const { return extent_segments_max_; }
  // Extent segments that no record has yet.
  std::uint64_t unpublished_segments() const { return unpublished_segments_; }

  // ---- Room for others.
  // Counts the blocks that no device takes: indexes, tables, and streams that stay in DRAM. Looks
  // at all segments.
  std::uint64_t FixedBlocks() const;
  // True if an open segment could be sealed to leave DRAM.
  bool HasOpenToLeave() const;
  // Seals open segments with at least `used_min` used bytes.
  void SealToLeave(std::uint64_t used_min);
  // Registers writers of large values. An idle writer loses its memory while others wait.
  void AddWriter(ValueWriter* writer) { writers_.push_back(writer); }
  void RemoveWriter(ValueWriter* writer) { std::erase(writers_, writer); }
  void RevokeIdleWriters(std::uint64_t now_ms);

 private:
  friend class FetchedScope;
  struct Open {
    std::uint32_t index = 0;
    std::uint32_t left = 0;
  };

  std::uint32_t BeginExtentSegment();
  Room RollSegment(Stream stream, std::uint64_t bytes, MemoryClass memory_class);
  void OpenSegment(Stream stream, std::uint32_t index);
  std::uint64_t RoomOf(Stream stream) const;
  static bool IsTombstone(RecordType type) {
    return type == RecordType::kTombstone || type == RecordType::kDrop;
  }
  void KillOne(std::uint64_t location, const RecordHeader* record);
  void Want(std::uint64_t location);
  // `footer_bytes`: of the entry that a durable stream's footer will have for it.
  std::byte* TakeSpace(Stream stream, std::uint64_t bytes, std::uint64_t footer_bytes,
                       std::uint64_t* location);
  void CountTombstone(std::uint64_t location, std::uint64_t bytes);
  void LinkExtent(std::uint64_t location, std::byte* record,
                  std::span<const std::uint32_t> segments);
  void MoveExtent(std::uint64_t from, std::uint64_t to);
  void Seal(std::uint32_t index);
  void CountDurable(const Segment& segment);
  bool AppendDrop(PartitionId id, std::uint64_t below);
  void MarkDead(std::uint32_t index);
  RecordHeader* LookFetched(std::uint64_t location);
  void ForgetUsed() const;

  CoreMemory& memory_;
  const std::uint64_t segment_bytes_;
  SegmentTable segments_;
  Open open_[kStreamCount];
  Reclaimer* reclaimer_ = nullptr;
  bool reclaiming_ = false;
  bool blocked_ = false;
  Refusal refusal_;
  StatusCode lost_ = StatusCode::kOk;
  SpillTarget* spill_target_ = nullptr;
  DurableTarget* durable_target_ = nullptr;
  const FetchedRecords* fetched_ = nullptr;
  std::vector<std::uint64_t> wanted_;  // An extent's segment: with offset 0.
  std::uint64_t wanted_bytes_ = 0;
  std::vector<std::uint32_t> looked_segments_;
  // Of records that may leave DRAM, and are killed there unread.
  absl::flat_hash_map<std::uint64_t, std::vector<std::uint32_t>> extents_;
  std::vector<std::uint32_t> dead_;
  std::vector<ValueWriter*> writers_;  // With a reservation.
  std::uint64_t live_bytes_ = 0;
  std::uint64_t spilled_live_bytes_ = 0;
  std::uint64_t tombstone_bytes_ = 0;
  std::uint64_t lost_below_ = 0;
  std::uint64_t durable_bytes_ = 0;
  std::uint64_t unpublished_segments_ = 0;
  std::uint64_t extent_segments_max_ = 0;
  std::uint64_t next_expiry_ms_ = kNeverMs;
  std::uint64_t floor_moved_at_ = 0;  // A segment number.
};

// While it lives, Look finds these records too.
class FetchedScope {
 public:
  FetchedScope(Log& log, const FetchedRecords* fetched) : log_(log), outer_(log.fetched_) {
    log_.fetched_ = fetched;
  }
  ~FetchedScope() { log_.fetched_ = outer_; }
  FetchedScope(const FetchedScope&) = delete;
  FetchedScope& operator=(const FetchedScope&) = delete;

 private:
  Log& log_;
  const FetchedRecords* const outer_;
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
