#include "storage/spill/spiller.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "proto/base/check.h"
#include "proto/base/failpoint.h"
#include "proto/base/log.h"
#include "storage/nvm/record_check.h"

namespace tidepool::storage {
namespace {

constexpr unsigned kQueueDepth = 256;
// Handed to the device at once: 8 reads cost their core 3 us, which operations in DRAM wait for.
constexpr unsigned kSubmitMax = 4;
// 8 MiB on their way: enough for 4 GB/s at 2 ms each.
constexpr std::uint32_t kWritesMax = 4;
constexpr std::uint64_t kBlocksWantedMax = 64;
constexpr std::uint64_t kSealPauseMs = 100;
// Bound on the buffers of a core, beside --memory: 256 reads of 8 KiB are 2 MiB; fewer large values
// are under way at once.
constexpr std::uint64_t kReadingBytesMax = 16ull << 20;

}  // namespace

Spiller::Spiller(Log& log, Compactor& compactor, PartitionFinder& finder, Volume& volume,
                 const DurableTarget& durable)
    : log_(log), compactor_(compactor), finder_(finder), volume_(volume), durable_(durable) {}

Status Spiller::Open() {
  auto queues = volume_.OpenQueues(kQueueDepth);
  if (!queues.ok()) return queues.status();
  queues_ = *std::move(queues);
  return OkStatus();
}

Spiller::~Spiller() {
  queues_.clear();  // First: devices still use memory that goes with this object.
  for (const Io& io : ios_) {
    if (io.frame != 0) log_.memory().FreeBlock(io.frame);
    if (io.what == Io::What::kWrite) volume_.NoteLeft();
  }
  std::size_t left = written_.size();
  if (freezing_.segment != 0) ++left;
  if (keeping_.segment != 0) ++left;
  for (; left > 0; --left) volume_.NoteLeft();
}

// ---- Requests.

std::uint32_t Spiller::TakeIo() {
  if (free_ios_.empty()) {
    ios_.emplace_back();
    return static_cast<std::uint32_t>(ios_.size() - 1);
  }
  const std::uint32_t io = free_ios_.back();
  free_ios_.pop_back();
  return io;
}

void Spiller::StartIo(std::uint32_t index) {
  Io& io = ios_[index];
  if (io.what == Io::What::kRecord && io.buffer == nullptr) {
    // A single read may exceed the bound, whatever its size.
    if (reading_bytes_ > 0 && reading_bytes_ + io.bytes > kReadingBytesMax) {
      waiting_.push_back(index);
      return;
    }
    io.buffer = buffers_.Take(io.bytes);
    reading_bytes_ += io.bytes;
  }
  const SlotPlace place = volume_.Place(log_.segments()[io.segment].slot - 1);
  DeviceRequest request;
  request.operation =
      io.what == Io::What::kWrite ? DeviceOperation::kWrite : DeviceOperation::kRead;
  request.offset = place.offset + io.offset;
  request.bytes = io.bytes;
  request.tag = index;
  switch (io.what) {
    case Io::What::kRecord:
      request.data = io.buffer.get();
      break;
    case Io::What::kWrite:
      request.data = log_.segments().Base(io.segment);
      break;
    case Io::What::kReturn:
    case Io::What::kExtent:
      request.data = log_.memory().At(io.frame);
      break;
    case Io::What::kFree:
      TP_CHECK(false);
  }
  if (!queues_[place.device]->Start(request)) waiting_.push_back(index);
}

void Spiller::StartWaiting() {
  // Tries each request once: a request that finds its queue full goes to the end.
  for (std::size_t left = waiting_.size(); left > 0; --left) {
    const std::uint32_t io = waiting_.front();
    waiting_.pop_front();
    StartIo(io);
  }
}

bool Spiller::Submit() {
  for (const auto& queue : queues_) (void)queue->Submit(queue->depth());
  return fetched_.empty();
}

unsigned Spiller::Poll() {
  unsigned done = 0;
  for (const auto& queue : queues_) {
    done += queue->Reap([this](const DeviceCompletion& completion) { Finish(completion); });
  }
  StartWaiting();
  for (const auto& queue : queues_) {
    if (queue->Submit(kSubmitMax)) ++done;
  }
  done += LeaveMemory();
  std::vector<std::shared_ptr<Fetching>> fetched;
  fetched.swap(fetched_);
  for (const auto& fetching : fetched) {
    {
      // An append takes blocks beside the value.
      const ReservationScope scope(log_.memory(), fetching->room.get());
      fetching->then(fetching->records);
    }
    for (const std::uint32_t segment : fetching->pinned) log_.Unpin(segment);
    ++done;
  }
  if (!returning_.empty()) StartExtents();
  return done;
}

void Spiller::Finish(const DeviceCompletion& completion) {
  const auto index = static_cast<std::uint32_t>(completion.tag);
  Io io = std::exchange(ios_[index], Io{});
  free_ios_.push_back(index);
  switch (io.what) {
    case Io::What::kRecord:
      return FinishRecord(io, completion.error);
    case Io::What::kWrite:
      return FinishWrite(io, completion.error);
    case Io::What::kReturn:
      return FinishReturn(io, completion.error);
    case Io::What::kExtent:
      return FinishExtent(io, completion.error);
    case Io::What::kFree:
      TP_CHECK(false);
  }
}

// ---- Segments that leave.

bool Spiller::IsWritten(const Segment& segment) {
  return segment.stream == Stream::kCache || segment.slot != 0;
}

void Spiller::Offer(std::uint32_t segment) {
  const Segment& full = log_.segments()[segment];
  const bool relocated = full.stream == Stream::kSpillRelocated;
  (IsWritten(full) ? cached_ : relocated ? relocated_ : offered_).push_back({segment, full.number});
}

// Returns whether the entry is outdated. A changed extent is in both lists, and belongs to one.
bool Spiller::IsStale(const Offered& offered, bool written) const {
  const Segment& segment = log_.segments()[offered.segment];
  const SegmentState state = segment.extent ? SegmentState::kExtent : SegmentState::kSealed;
  return segment.number != offered.number || segment.state != state ||
         IsWritten(segment) != written;
}

void Spiller::DropStale() {
  const auto drop = [this](std::deque<Offered>& from, bool written) {
    while (!from.empty() && IsStale(from.front(), written)) from.pop_front();
  };
  drop(offered_, false);
  drop(relocated_, false);
  drop(cached_, true);
}

bool Spiller::MakesRoom() const {
  if (volume_.leaving() > 0 || durable_.IsWriting() || compactor_.WinsMemory()) return true;
  if (FindCached() != cached_.end()) return true;
  // Open segments can be sealed for waiters on other cores.
  if (HasSlots() && log_.memory().pool().room_waits() && log_.HasOpenToLeave()) return true;
  const bool slots_come = !broken_ && !nothing_returns_ && !compactor_.starves();
  // Durable segments take their slots before all others, with all memory free.
  const bool lacks_slots = durable_.SlotsWanted() != 0 && volume_.slots_free() < SlotsWanted();
  if (lacks_slots && (slots_come || durable_.IsReleasing())) return true;
  const auto lives = [this](const Offered& each) { return !IsStale(each, false); };
  return (HasSlots() || slots_come) && (std::any_of(offered_.begin(), offered_.end(), lives) ||
                                        std::any_of(relocated_.begin(), relocated_.end(), lives));
}

// Returns the first segment that can leave. A returned extent may have cost the last slots, which
// its displaced segments took. Its memory then is the room for the next extent, on any core, and is
// kept for that.
std::deque<Spiller::Offered>::const_iterator Spiller::FindCached() const {
  const bool extents = log_.memory().pool().reads_wait() || volume_.slots_free() >= SlotsKept();
  return std::find_if(cached_.begin(), cached_.end(), [&](const Offered& each) {
    return !IsStale(each, true) && (extents || !log_.segments()[each.segment].extent);
  });
}

std::uint64_t Spiller::BlocksWanted() const {
  return std::clamp<std::uint64_t>(log_.memory().block_count_max() / 16, 2, kBlocksWantedMax);
}

// Slots that writes leave free. On full memory and devices a large value can still return:
// displaced segments take these slots, and the value later makes way for the next. Displaced
// segments first refill the reserve of memory, so it is included.
std::uint64_t Spiller::SlotsKept() const {
  const std::uint64_t largest = log_.extent_segments_max();
  return largest == 0 ? 0 : largest + log_.memory().reserve_blocks();
}

bool Spiller::HasSlots() const { return !broken_ && volume_.slots_free() > SlotsKept(); }

// Returns whether to compact first. Records that died in DRAM are not written: an eighth less is
// worth a copy of the rest. Compaction runs once; a segment without memory for it leaves as it is.
bool Spiller::IsWorthCompacting(const Segment& segment) const {
  return !segment.extent && segment.pins == 0 && segment.compacted_to == 0 &&
         log_.WinnableBytes(segment) >= log_.segment_bytes() / 8;
}

// False: not now.
bool Spiller::LeaveOffered() {
  std::deque<Offered>& from = relocated_.empty() ? offered_ : relocated_;
  if (IsWorthCompacting(log_.segments()[from.front().segment])) {
    if (compactor_.has_victim()) return false;  // Compaction goes on, or ends for lack of memory.
    compactor_.Begin(Remove(from, from.begin()));
    return true;
  }
  return writes_ < kWritesMax && Leave(Remove(from, from.begin()));
}

// Starts a segment on its way out: the oldest that can leave, but relocated segments before all
// others. Relocated records are older than their segment, and new records are likelier to die
// before they must be written. False: no segment can leave now.
bool Spiller::BeginOne() {
  const std::uint64_t coming = writes_ + written_.size();
  const std::uint64_t wanted = BlocksWanted() + log_.memory().pool().room_wanted();
  if (log_.memory().BlocksAvailable() + coming >= wanted) return false;
  DropStale();
  const auto cached = FindCached();
  const bool any = !relocated_.empty() || !offered_.empty();
  const bool older = !relocated_.empty() ||
                     (any && (cached == cached_.end() || offered_.front().number < cached->number));
  if (older && HasSlots()) return LeaveOffered();
  if (cached != cached_.end() && Leave(Remove(cached_, cached))) return true;
  // The cache has no segment, or slow readers pin its segments.
  return any && (!returning_.empty() || HasSlots()) && LeaveOffered();
}

// Seals open segments if other cores wait for room and this core has no other segment to release.
// Hardly used segments are sealed only from time to time, since each takes a slot.
void Spiller::SealForOthers(std::uint64_t now_ms) {
  if (!log_.memory().pool().room_waits() || volume_.leaving() > 0 || !HasSlots()) return;
  DropStale();  // An outdated entry releases nothing.
  if (!offered_.empty() || !relocated_.empty() || FindCached() != cached_.end()) return;
  const bool any = now_ms >= seal_not_before_ms_;
  if (any) seal_not_before_ms_ = now_ms + kSealPauseMs;
  log_.SealToLeave(any ? 0 : log_.segment_bytes() / 2);
}

std::uint32_t Spiller::Remove(std::deque<Offered>& offered,
                              std::deque<Offered>::const_iterator at) {
  const std::uint32_t segment = at->segment;
  offered.erase(at);
  return segment;
}

// False: not now.
bool Spiller::Leave(std::uint32_t index) {
  Segment& segment = log_.segments()[index];
  if (segment.extent && std::exchange(segment.read, false)) {
    log_.Offer(index);  // A second chance.
    return true;
  }
  if (segment.extent && segment.slot != 0) {
    if (log_.LeaveUnwritten(index)) return true;
    log_.Offer(index);
    return false;
  }
  if (IsSpill(segment.stream)) return BeginFreezing(index);
  volume_.NoteLeaving();
  keeping_ = {index, sizeof(SegmentHeader)};
  const bool cached = segment.stream == Stream::kCache;
  segment.state = cached ? SegmentState::kCompacting : SegmentState::kWriting;
  return true;
}

bool Spiller::BeginFreezing(std::uint32_t index) {
  const std::uint64_t slot = broken_ ? kNoSlot : volume_.AllocateSlot();
  if (slot == kNoSlot) {
    log_.Offer(index);
    return false;
  }
  const bool extent = log_.segments()[index].extent;
  freezing_ = {index,
               static_cast<std::uint32_t>(extent ? kExtentHeaderBytes : sizeof(SegmentHeader))};
  volume_.NoteLeaving();
  log_.Freeze(index, static_cast<std::uint32_t>(slot));
  TP_FAILPOINT("spill.frozen");
  return true;
}

// True: all of it is frozen, and on its way.
bool Spiller::FreezeOn(absl::FunctionRef<bool()> done) {
  const std::uint32_t index = freezing_.segment;
  const Segment& segment = log_.segments()[index];
  std::byte* const base = log_.segments().Base(index);
  while (freezing_.at < segment.used) {
    if (done()) return false;
    if (segment.extent) {
      StoreUnaligned(base + ExtentPieceSlot(freezing_.at),
                     ExtentChecksum(base, freezing_.at, segment.used, segment.number));
      freezing_.at += kExtentPieceBytes;
      continue;
    }
    RecordHeader& record = *log_.At(log_.segments().LocationOf(index, freezing_.at));
    TP_CHECK(record.sequence % 2 == 0);
    const std::uint64_t bytes = log_.BytesOf(record);
    record.crc32c = RecordChecksum(record, bytes, segment.number);
    freezing_.at += static_cast<std::uint32_t>(bytes);
  }
  freezing_ = {};
  auto* header = reinterpret_cast<SegmentHeader*>(base);
  header->crc32c = SegmentChecksum(*header);
  const std::uint32_t taken = TakeIo();
  Io& io = ios_[taken];
  io.what = Io::What::kWrite;
  io.segment = index;
  io.bytes = UpToBlock(segment.used);
  // The remains of the block's earlier use must not reach the device.
  std::memset(base + segment.used, 0, io.bytes - segment.used);
  ++writes_;
  StartIo(taken);
  return true;
}

bool Spiller::Slice(std::uint64_t now_ms, absl::FunctionRef<bool()> done) {
  for (;;) {
    // The segments that just left made place for returning values, not for the next write.
    if (!returning_.empty()) StartExtents();
    if (keeping_.segment == 0 && !written_.empty()) {
      const std::uint32_t segment = written_.front();
      written_.pop_front();
      if (log_.segments()[segment].extent) {
        LeaveSoon(segment);
        continue;
      }
      keeping_ = {segment, sizeof(SegmentHeader)};
    }
    if (keeping_.segment != 0) {
      if (!KeepOn(done)) return true;
    } else if (freezing_.segment != 0) {
      if (!FreezeOn(done)) return true;
    } else if (!BeginOne()) {
      break;
    }
  }
  ReturnOne(now_ms);
  SealForOthers(now_ms);
  if (!returning_.empty()) ExpireExtents(now_ms);
  return false;
}

void Spiller::FinishWrite(Io& io, int error) {
  --writes_;
  if (error == 0) {
    TP_FAILPOINT("spill.written");
    ++counters_.spilled_segments;
    counters_.written_bytes += io.bytes;
    const Segment& segment = log_.segments()[io.segment];
    counters_.record_bytes += segment.live - std::min(segment.rewritten, segment.live);
    written_.push_back(io.segment);
    return;
  }
  volume_.NoteLeft();
  ++counters_.failed_writes;
  if (!broken_) {
    log::Error("the device cannot be written: " + std::string(std::strerror(error)) +
               "; nothing more leaves memory, and what is full refuses writes");
  }
  broken_ = true;
  log_.Unfreeze(io.segment);
}

// Copies recently read records. True: the walk is over, and the segment leaves once it is unpinned.
bool Spiller::KeepOn(absl::FunctionRef<bool()> done) {
  const std::uint32_t index = keeping_.segment;
  const Segment& segment = log_.segments()[index];
  const bool cached = segment.stream == Stream::kCache;
  while (keeping_.at < segment.used && segment.records > 0) {
    if (done()) return false;
    const std::uint64_t location = log_.segments().LocationOf(index, keeping_.at);
    const RecordHeader& record = *log_.At(location);
    const std::uint64_t bytes = log_.BytesOf(record);
    keeping_.at += static_cast<std::uint32_t>(bytes);
    // Only if there is memory to spare, and once per read.
    const bool copy = (record.sequence & kSequenceRead) != 0 && log_.MakeCacheRoom(bytes);
    if (cached || copy) Keep(record, location, copy);
  }
  keeping_ = {};
  if (cached) {
    log_.FinishCompacted(index);
    log_.FreeDead();
    volume_.NoteLeft();
    ++counters_.freed_cache_segments;
  } else {
    LeaveSoon(index);
  }
  return true;
}

// Redirects references from the record to its home, or to a new copy.
void Spiller::Keep(const RecordHeader& record, std::uint64_t location, bool copy) {
  if (record.type != RecordType::kPut) return;
  std::uint64_t* slot = nullptr;
  bool dropped = false;
  Partition* partition = finder_.FindHolder(record, location, &slot, &dropped);
  if (partition == nullptr) return;  // Dead long since.
  const std::uint64_t home = IsCopy(record) ? HomeOf(record) : location;
  if (dropped) return partition->store().Discard(slot, location);
  partition->store().Relocate(slot, record, copy ? log_.AppendCopy(record, home) : home);
  if (IsCopy(record)) log_.DropCopy(location);
}

// Releases the memory once it is unpinned. Waiters do not count on it: a slow reader may pin it.
void Spiller::LeaveSoon(std::uint32_t segment) {
  if (!log_.LeaveMemory(segment)) leaving_.push_back(segment);
  volume_.NoteLeft();
  log_.FreeDead();
}

unsigned Spiller::LeaveMemory() {
  if (leaving_.empty()) return 0;
  const std::size_t left =
      std::erase_if(leaving_, [this](std::uint32_t segment) { return log_.LeaveMemory(segment); });
  log_.FreeDead();
  return static_cast<unsigned>(left);
}

}  // namespace tidepool::storage
