// Appending and accounting. The hot ones are Append and Kill.
#include "storage/log.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "proto/base/check.h"
#include "storage/nvm/slot_pool.h"
#include "storage/spill/fetched_records.h"
#include "storage/value_io.h"

namespace tidepool::storage {
namespace {

// Whose open segments may be sealed before they are full.
constexpr std::array kLeavingStreams = {Stream::kSpill, Stream::kSpillRelocated, Stream::kCache};

}  // namespace

Log::Log(CoreMemory& memory, CoreId core, std::uint64_t spilled_max, std::uint64_t incarnation)
    : memory_(memory),
      segment_bytes_(memory.block_bytes()),
      segments_(memory, core, spilled_max, incarnation) {}

std::uint8_t Log::FlagsOf(const LogRecord& change) {
  return static_cast<std::uint8_t>((change.value_flags & kCounterFlags) |
                                   (change.keyed ? kRecordKeyed : 0) |
                                   (change.expiry_ms != 0 ? kRecordExpiry : 0) |
                                   (change.session.value() != 0 ? kRecordClient : 0));
}

std::uint64_t Log::BytesFor(const LogRecord& change) const {
  return EncodedBytes(change, RecordTypeOf(change.type));
}

Room Log::RollSegment(Stream stream, std::uint64_t bytes, MemoryClass memory_class) {
  if (bytes > RoomOf(stream)) return Room::kNone;
  FreeDead();
  // Who can wait leaves the last blocks to indexes and partitions, which cannot.
  if (memory_class == MemoryClass::kUser && MaySpill(stream) &&
      memory_.BlocksAvailable() <= kBlocksLeftMax && memory_.blocks_reserved() == 0 &&
      (makes_room() || memory_.pool().room_waits())) {
    return Room::kNone;
  }
  // Its place is its own from the beginning: what was written there can always become durable.
  std::uint64_t slot = kNoSlot;
  if (IsDurable(stream)) {
    slot = durable_target_->TakeSlot(memory_class);
    if (slot == kNoSlot) return Room::kNone;
  }
  bool moved = false;
  std::uint32_t index = segments_.Begin(SegmentKind::kLog, stream, memory_class);
  if (index == 0 && Reclaim()) {
    moved = true;
    index = segments_.Begin(SegmentKind::kLog, stream, memory_class);
  }
  if (index == 0) {
    if (slot != kNoSlot) durable_target_->ReleaseSlot(static_cast<std::uint32_t>(slot), 0);
    return Room::kNone;
  }
  if (slot != kNoSlot) segments_[index].slot = static_cast<std::uint32_t>(slot + 1);
  OpenSegment(stream, index);
  return moved ? Room::kMoved : Room::kReady;
}

void Log::OpenSegment(Stream stream, std::uint32_t index) {
  Open& open = open_[static_cast<int>(stream)];
  if (open.index != 0) Seal(open.index);
  open.index = index;
  open.left = static_cast<std::uint32_t>(RoomOf(stream));
}

// A durable segment ends with a record of its own: where it is missing, something was lost; and
// then with a footer, of which the last entry always has room.
std::uint64_t Log::RoomOf(Stream stream) const {
  const std::uint64_t room = segment_bytes_ - sizeof(SegmentHeader);
  if (!IsDurable(stream)) return room;
  return room - sizeof(RecordHeader) - kFooterEntryBytesMax - kFooterTrailerBytes;
}

bool Log::MakeCacheRoom(std::uint64_t bytes) {
  if (open_[static_cast<int>(Stream::kCache)].left >= bytes) return true;
  if (bytes > segment_bytes_ - sizeof(SegmentHeader) ||
      memory_.BlocksAvailable() <= kBlocksLeftMax) {
    return false;
  }
  const std::uint32_t index =
      segments_.Begin(SegmentKind::kLog, Stream::kCache, MemoryClass::kUser);
  if (index == 0) return false;
  OpenSegment(Stream::kCache, index);
  return true;
}

void Log::Seal(std::uint32_t index) {
  Segment& segment = segments_[index];
  TP_CHECK(segment.state == SegmentState::kOpen);
  segment.state = SegmentState::kSealed;
  if (segment_bytes_ - segment.used >= sizeof(RecordHeader)) {
    std::memset(segments_.Base(index) + segment.used, 0, sizeof(RecordHeader));
  }
  if (IsDurable(segment.stream)) {
    CountDurable(segment);
    segment.frozen_to = segment.used;
    // What the device has of it needs an end, though nothing in it counts.
    if (segment.live != 0 || segment.written_to != 0) durable_target_->NoteSealed(index);
  } else if (segment.live != 0) {
    Offer(index);
  }
  if (segment.live == 0) MarkDead(index);
}

std::byte* Log::TakeSpace(Stream stream, std::uint64_t bytes, std::uint64_t footer_bytes,
                          std::uint64_t* location) {
  Open& open = open_[static_cast<int>(stream)];
  TP_CHECK(open.left >= bytes);
  Segment& segment = segments_[open.index];
  TP_DCHECK(segment.state == SegmentState::kOpen);
  *location = segments_.LocationOf(open.index, segment.used);
  std::byte* at = segments_.Base(open.index) + segment.used;
  segment.used += static_cast<std::uint32_t>(bytes);
  segment.live += static_cast<std::uint32_t>(bytes);
  ++segment.records;
  segment.record_bytes_max = std::max(segment.record_bytes_max, static_cast<std::uint32_t>(bytes));
  const std::uint64_t taken = IsDurable(stream) ? bytes + footer_bytes : bytes;
  open.left -= static_cast<std::uint32_t>(std::min<std::uint64_t>(taken, open.left));
  live_bytes_ += bytes;
  return at;
}

std::uint64_t Log::Append(Stream stream, const LogRecord& change, RecordType type, Lsn lsn) {
  const bool tombstone = type == RecordType::kTombstone;
  const std::uint64_t bytes = EncodedBytes(change, type);
  std::uint64_t location = 0;
  const std::uint64_t footer_bytes = FooterEntryBytes(type, FlagsOf(change), change.key.size());
  std::byte* at = TakeSpace(stream, bytes, footer_bytes, &location);
  Encode(change, type, lsn, bytes, at);
  if (tombstone) {
    CountTombstone(location, bytes);
    SetTombstoneBelow(*reinterpret_cast<RecordHeader*>(at), segments_.next_number());
  } else if (change.expiry_ms != 0) {
    NoteExpiry(location, change.expiry_ms);
  }
  if (type == RecordType::kPutExtent) LinkExtent(location, at, change.extent_segments);
  return location;
}

std::uint64_t Log::EncodedBytes(const LogRecord& change, RecordType type) {
  if (type == RecordType::kTombstone) return RecordBytes(change.key.size(), 0, 0);
  return RecordBytes(change.key.size(),
                     change.extent_segments.size() * kExtentLinkBytes + change.value.size() +
                         change.value_tail.size(),
                     FlagsOf(change));
}

void Log::Encode(const LogRecord& change, RecordType type, Lsn lsn, std::uint64_t bytes,
                 std::byte* at) {
  const bool tombstone = type == RecordType::kTombstone;
  const std::uint8_t flags =
      FlagsOf(change) & (tombstone ? std::uint8_t{kRecordKeyed} : std::uint8_t{0xff});
  RecordHeader header{};
  header.lsn = lsn.value();
  header.value_bytes = tombstone ? 0 : static_cast<std::uint32_t>(change.value_bytes);
  header.key_bytes = static_cast<std::uint16_t>(change.key.size());
  header.type = type;
  header.flags = flags;
  header.partition = change.partition.value();
  std::memcpy(at, &header, sizeof header);
  std::byte* to = at + sizeof(RecordHeader);
  const auto put = [&to](const void* from, std::size_t count) {
    if (count != 0) std::memcpy(to, from, count);
    to += count;
  };
  put(change.key.data(), change.key.size());
  if (!tombstone) {
    to += change.extent_segments.size() * kExtentLinkBytes;  // See Append.
    put(change.value.data(), change.value.size());
    put(change.value_tail.data(), change.value_tail.size());
  }
  std::byte* trailers = at + (bytes - TrailerBytes(flags));
  // Zero up to the trailers, so that a record's bytes, and later its CRC, are a function of its
  // content.
  for (; to < trailers; ++to) *to = std::byte{0};
  if ((flags & kRecordExpiry) != 0) {
    StoreUnaligned(to, change.expiry_ms);
    to += kExpiryTrailerBytes;
  }
  if ((flags & kRecordClient) != 0) {
    StoreUnaligned(to, change.session.value());
    StoreUnaligned(to + 8, change.session_sequence);
  }
}

void Log::CountTombstone(std::uint64_t location, std::uint64_t bytes) {
  Segment& segment = segments_[segments_.IndexOf(location)];
  segment.tombstones += static_cast<std::uint32_t>(bytes);
  ++segment.tombstone_records;
  tombstone_bytes_ += bytes;
}

std::uint64_t Log::Relocate(std::uint64_t location) {
  const RecordHeader* from = At(location);
  const std::uint64_t bytes = BytesOf(*from);
  std::uint64_t to_location = 0;
  std::byte* to =
      TakeSpace(RelocationStream(location), bytes, FooterEntryBytes(*from), &to_location);
  std::memcpy(to, from, bytes);
  const bool written = segments_[segments_.IndexOf(location)].slot != 0;
  // What was read since it came has its second chance still to come.
  reinterpret_cast<RecordHeader*>(to)->sequence = written ? 0 : from->sequence & kSequenceRead;
  if (written) {
    segments_[segments_.IndexOf(to_location)].rewritten += static_cast<std::uint32_t>(bytes);
  }
  if (IsTombstone(from->type)) CountTombstone(to_location, bytes);
  if (from->type == RecordType::kPutExtent) MoveExtent(location, to_location);
  if (const std::uint64_t expiry_ms = ExpiryOf(*from); expiry_ms != 0) {
    NoteExpiry(to_location, expiry_ms);
  }
  return to_location;
}

std::uint64_t Log::AppendCopy(const RecordHeader& record, std::uint64_t home) {
  TP_DCHECK(record.type == RecordType::kPut);
  const std::uint64_t bytes = BytesOf(record);
  std::uint64_t location = 0;
  std::byte* to = TakeSpace(Stream::kCache, bytes, 0, &location);
  std::memcpy(to, &record, bytes);
  auto* copy = reinterpret_cast<RecordHeader*>(to);
  copy->sequence = 0;
  copy->flags |= kRecordCopy;
  SetHome(*copy, home);
  if (const std::uint64_t expiry_ms = ExpiryOf(*copy); expiry_ms != 0) {
    NoteExpiry(location, expiry_ms);
  }
  return location;
}

void Log::Kill(std::uint64_t location) {
  const RecordHeader* const record = Peek(location);
  // The copy is as large as its home, which nobody has to read for that.
  if (record != nullptr && IsCopy(*record)) KillOne(HomeOf(*record), record);
  KillOne(location, record);
}

// `record` tells its size; null: unread.
void Log::KillOne(std::uint64_t location, const RecordHeader* record) {
  const std::uint32_t index = segments_.IndexOf(location);
  Segment& segment = segments_[index];
  TP_CHECK(segment.records > 0);
  --segment.records;
  std::uint64_t bytes = 0;
  if (segment.slot == 0) [[likely]] {
    bytes = BytesOf(*record);
    TP_CHECK(segment.live >= bytes);
  } else {
    // Once one was killed unread the sum is a guess, but each record has its share of it, and the
    // last one takes what is left.
    bytes = record != nullptr ? BytesOf(*record) : segment.live / (segment.records + 1);
    segment.guessed = segment.guessed || record == nullptr;
    const std::uint64_t kept = segment.records * sizeof(RecordHeader);
    bytes = segment.records == 0
                ? segment.live
                : std::min<std::uint64_t>(
                      bytes, segment.live - std::min<std::uint64_t>(kept, segment.live));
    if (segment.frame == 0) spilled_live_bytes_ -= bytes;
  }
  segment.live -= static_cast<std::uint32_t>(bytes);
  live_bytes_ -= bytes;
  if (record != nullptr && IsTombstone(record->type)) {
    segment.tombstones -= static_cast<std::uint32_t>(bytes);
    --segment.tombstone_records;
    tombstone_bytes_ -= bytes;
  }
  if (segment.records > 0) return;
  if (segment.state == SegmentState::kSealed || segment.state == SegmentState::kSpilled)
    MarkDead(index);
}

void Log::NoteExpiry(std::uint64_t location, std::uint64_t expiry_ms) {
  Segment& segment = segments_[segments_.IndexOf(location)];
  segment.expiry_min_ms = std::min(segment.expiry_min_ms, expiry_ms);
  next_expiry_ms_ = std::min(next_expiry_ms_, expiry_ms);
}

std::uint64_t Log::AllocateChunk(std::uint64_t bytes) {
  std::uint64_t chunk = memory_.AllocateChunk(bytes);
  if (chunk != 0) return chunk;
  FreeDead();
  chunk = memory_.AllocateChunk(bytes);
  if (chunk != 0 || !Reclaim()) return chunk;
  return memory_.AllocateChunk(bytes);
}

void Log::MarkDead(std::uint32_t index) {
  // Freed later: an answer of this very operation may still refer to its bytes.
  segments_[index].state = SegmentState::kDead;
  dead_.push_back(index);
}

void Log::Unpin(std::uint32_t segment) {
  TP_CHECK(segments_[segment].pins > 0);
  --segments_[segment].pins;
}

void Log::FreeDead() {
  std::erase_if(dead_, [this](std::uint32_t index) {
    Segment& segment = segments_[index];
    if (segment.pins != 0) return false;
    const std::uint32_t slot = std::exchange(segment.slot, 0);
    const bool durable = IsDurable(segment.stream);
    const bool written = segment.written_to != 0;
    // No tombstone is kept for what an extent's has: without its record it says nothing.
    const std::uint64_t number = segment.extent ? kNoNumber : segment.number;
    segments_.Free(index);
    if (slot != 0 && durable) durable_target_->ReleaseSlot(slot - 1, written ? number : 0);
    if (slot != 0 && !durable) spill_target_->ReleaseSlot(slot - 1);
    return true;
  });
}

void Log::FinishCompacted(std::uint32_t index) {
  Segment& segment = segments_[index];
  TP_CHECK(segment.state == SegmentState::kCompacting);
  TP_CHECK(segment.live == 0);
  MarkDead(index);
}

std::uint64_t Log::FixedBlocks() const {
  std::uint64_t blocks = memory_.blocks_chunked();
  for (std::uint32_t index = 1; index < segments_.end(); ++index) {
    const Segment& segment = segments_[index];
    const bool stays = segment.stream == Stream::kVolatile || segment.stream == Stream::kRelocated;
    // One of an extent that is being written belongs to a reservation.
    if (stays && segment.frame != 0 && segment.live != 0) ++blocks;
  }
  return blocks;
}

bool Log::HasOpenToLeave() const {
  return std::any_of(kLeavingStreams.begin(), kLeavingStreams.end(),
                     [this](Stream stream) { return open_[static_cast<int>(stream)].index != 0; });
}

void Log::SealToLeave(std::uint64_t used_min) {
  for (const Stream stream : kLeavingStreams) {
    Open& open = open_[static_cast<int>(stream)];
    if (open.index == 0) continue;
    // One with nothing that counts is free at once.
    if (segments_[open.index].live != 0 && segments_[open.index].used < used_min) continue;
    Seal(open.index);
    open = {};
  }
}

void Log::RevokeIdleWriters(std::uint64_t now_ms) {
  // A writer that loses its memory leaves the list.
  const std::vector<ValueWriter*> writers = writers_;
  for (ValueWriter* writer : writers) writer->RevokeIfIdle(now_ms);
}

std::uint64_t Log::dead_bytes() const {
  std::uint64_t room = unpublished_segments_ * segment_bytes_;
  for (const Open& open : open_) room += open.left;
  const std::uint64_t all = segments_.resident() * segment_bytes_;
  const std::uint64_t live = live_bytes_ - spilled_live_bytes_;
  TP_CHECK(all >= live + room);
  return all - live - room;
}

// ---- Records that are not in DRAM.

RecordHeader* Log::Peek(std::uint64_t location) const {
  RecordHeader* const resident = segments_.Find(location);
  if (resident != nullptr || fetched_ == nullptr) return resident;
  const FetchedRecords::Record* found = fetched_->Find(location);
  return found == nullptr ? nullptr : found->record;
}

RecordHeader* Log::LookFetched(std::uint64_t location) {
  const FetchedRecords::Record* found = fetched_ == nullptr ? nullptr : fetched_->Find(location);
  if (found != nullptr && found->record != nullptr) return found->record;
  blocked_ = true;
  found != nullptr ? void(lost_ = found->code) : Want(location);
  return nullptr;
}

bool Log::IsUnreadable(std::uint64_t location) const {
  if (fetched_ == nullptr || segments_.Find(location) != nullptr) return false;
  const FetchedRecords::Record* found = fetched_->Find(location);
  return found != nullptr && found->record == nullptr;
}

bool Log::meets_unreadable() const {
  return fetched_ != nullptr &&
         std::any_of(fetched_->records().begin(), fetched_->records().end(),
                     [](const FetchedRecords::Record& each) { return each.record == nullptr; });
}

void Log::Want(std::uint64_t location) {
  if (std::find(wanted_.begin(), wanted_.end(), location) == wanted_.end()) {
    wanted_.push_back(location);
    wanted_bytes_ += segments_[segments_.IndexOf(location)].ExpectedRecordBytes();
  }
}

void Log::ForgetUsed() const { fetched_->BeginRun(); }

bool Log::MayWantMore() const {
  return wanted_.size() < kFetchedRecordsMax && wanted_bytes_ < kFetchedBytesMax;
}

void Log::WantAhead(std::uint64_t location) {
  if (segments_.Find(location) != nullptr || !MayWantMore()) return;
  if (fetched_ == nullptr || fetched_->Find(location) == nullptr) Want(location);
}

std::vector<std::uint64_t> Log::TakeWanted() {
  std::vector<std::uint64_t> wanted = std::move(wanted_);
  Unblock();
  return wanted;
}

void Log::Unblock() {
  blocked_ = false;
  lost_ = StatusCode::kOk;
  wanted_.clear();
  wanted_bytes_ = 0;
}

std::shared_ptr<const std::byte> Log::FetchedBuffer(std::uint64_t location) const {
  if (segments_.Find(location) != nullptr || fetched_ == nullptr) return nullptr;
  const FetchedRecords::Record* found = fetched_->Find(location);
  return found == nullptr ? nullptr : found->buffer;
}

void Log::Freeze(std::uint32_t index, std::uint32_t slot) {
  Segment& segment = segments_[index];
  TP_CHECK(segment.state == (segment.extent ? SegmentState::kExtent : SegmentState::kSealed));
  TP_CHECK(IsSpill(segment.stream));
  TP_CHECK(segment.slot == 0);
  segment.state = SegmentState::kWriting;
  segment.slot = slot + 1;
  segment.frozen_to = segment.used;
}

void Log::Unfreeze(std::uint32_t index) {
  Segment& segment = segments_[index];
  TP_CHECK(segment.state == SegmentState::kWriting);
  segment.state = segment.extent ? SegmentState::kExtent : SegmentState::kSealed;
  spill_target_->ReleaseSlot(std::exchange(segment.slot, 0) - 1);
  segment.frozen_to = 0;
  if (segment.records == 0) MarkDead(index);
}

bool Log::LeaveMemory(std::uint32_t index) {
  Segment& segment = segments_[index];
  if (segment.records == 0) {
    segment.state = SegmentState::kSealed;
    MarkDead(index);
    return true;
  }
  if (segment.pins != 0) return false;
  segments_.LeaveMemory(index);
  spilled_live_bytes_ += segment.live;
  return true;
}

void Log::ReturnToMemory(std::uint32_t index, std::uint64_t frame) {
  Segment& segment = segments_[index];
  spilled_live_bytes_ -= segment.live;
  segments_.ReturnToMemory(index, frame);
  if (segment.extent) Offer(index);
}

}  // namespace tidepool::storage
