// What durable streams need of the log: where a checkpoint cuts them, and how an earlier
// incarnation's records come into its accounts.
#include <algorithm>
#include <cstring>

#include "proto/base/check.h"
#include "storage/device/device.h"
#include "storage/log.h"

namespace tidepool::storage {
namespace {

constexpr std::uint64_t kTombstoneSegments = 4;
// Segments begun since an open one, which is then sealed if tombstones are kept for what it has.
constexpr std::uint64_t kOpenAgeMax = 4;

}  // namespace

Log::OpenEnd Log::Cut(Stream stream) {
  TP_CHECK(IsDurable(stream));
  Open& open = open_[static_cast<int>(stream)];
  if (open.index == 0) return {};
  Segment& segment = segments_[open.index];
  if (IsCut(stream)) return {open.index, segment.frozen_to};
  const auto whole = static_cast<std::uint32_t>(AlignUp(segment.used, kDeviceBlockBytes));
  std::uint32_t gap = whole - segment.used;
  if (gap != 0 && gap < sizeof(RecordHeader)) gap += kDeviceBlockBytes;
  if (gap >= open.left) {
    Seal(open.index);
    open = {};
    return {};
  }
  CountDurable(segment);
  if (gap != 0) {
    std::byte* const at = segments_.Base(open.index) + segment.used;
    std::memset(at, 0, gap);
    auto* pad = reinterpret_cast<RecordHeader*>(at);
    pad->type = RecordType::kPad;
    pad->value_bytes = static_cast<std::uint32_t>(gap - sizeof(RecordHeader));
    segment.used += gap;
    open.left -= gap;
  }
  segment.frozen_to = segment.used;
  return {open.index, segment.used};
}

// What is behind the last cut, before it is padded. What compaction has moved was counted before.
void Log::CountDurable(const Segment& segment) {
  if (segment.stream != Stream::kDurable) return;
  const auto counted = std::max<std::uint32_t>(segment.frozen_to, sizeof(SegmentHeader));
  durable_bytes_ += segment.used - std::min(counted, segment.used);
}

bool Log::IsCut(Stream stream) const {
  const Open& open = open_[static_cast<int>(stream)];
  if (open.index == 0) return true;
  const Segment& segment = segments_[open.index];
  return segment.used == sizeof(SegmentHeader) || segment.frozen_to == segment.used;
}

void Log::EndDurable() {
  for (const Stream stream : {Stream::kDurable, Stream::kDurableRelocated}) {
    Open& open = open_[static_cast<int>(stream)];
    if (open.index == 0) continue;
    segments_[open.index].frozen_to = static_cast<std::uint32_t>(segment_bytes_);
    open.left = 0;
  }
}

std::uint32_t Log::AdoptSegment(std::uint64_t number, Stream stream, std::uint32_t slot) {
  const std::uint32_t index = segments_.AddSpilled(number, stream);
  if (index == 0) return 0;
  segments_[index].slot = slot + 1;
  segments_[index].marked = true;
  return index;
}

void Log::EndAdoptedSegment(std::uint32_t index, std::uint32_t used) {
  Segment& segment = segments_[index];
  segment.used = used;
  segment.frozen_to = used;
  segment.written_to = static_cast<std::uint32_t>(AlignUp(used, kDeviceBlockBytes));
}

void Log::AdoptRecord(const AdoptedRecord& record) {
  Segment& segment = segments_[segments_.IndexOf(record.location)];
  TP_CHECK(segment.state == SegmentState::kSpilled);
  segment.live += record.bytes;
  ++segment.records;
  segment.record_bytes_max = std::max(segment.record_bytes_max, record.bytes);
  live_bytes_ += record.bytes;
  spilled_live_bytes_ += record.bytes;
  if (record.tombstone) CountTombstone(record.location, record.bytes);
  if (record.expiry_ms != 0) NoteExpiry(record.location, record.expiry_ms);
}

void Log::AdoptExtentOf(std::uint64_t location, std::vector<std::uint32_t> segments,
                        std::uint64_t value_bytes) {
  const std::uint64_t capacity = ExtentSegmentCapacity(segment_bytes_);
  extent_segments_max_ = std::max<std::uint64_t>(extent_segments_max_, segments.size());
  std::uint64_t left = value_bytes;
  for (const std::uint32_t index : segments) {
    const auto live = static_cast<std::uint32_t>(std::min(left, capacity));
    left -= live;
    if (index == 0) continue;
    Segment& segment = segments_[index];
    segment.extent = true;
    segment.records = 1;
    segment.live = live;
    live_bytes_ += live;
    spilled_live_bytes_ += live;
    EndAdoptedSegment(index, static_cast<std::uint32_t>(kExtentHeaderBytes + live));
  }
  extents_[location] = std::move(segments);
}

bool Log::SealDurable() {
  for (const Stream stream : {Stream::kDurable, Stream::kDurableRelocated}) {
    Open& open = open_[static_cast<int>(stream)];
    if (open.index == 0 || segments_[open.index].used == sizeof(SegmentHeader)) continue;
    if (open.left == 0) return false;  // EndDurable.
    Seal(open.index);
    open = {};
  }
  return true;
}

std::uint64_t Log::NoteDrop(PartitionId id) {
  // What is in segments from here on is of a later partition.
  if (!SealDurable()) return 0;
  const std::uint64_t below = segments_.next_number();
  return AppendDrop(id, below) ? below : 0;
}

// Where it finds no room the loss is told of this partition too.
void Log::NoteBegin(PartitionId id) { (void)AppendDrop(id, lost_below_); }

bool Log::AppendDrop(PartitionId id, std::uint64_t below) {
  if (MakeRoom(Stream::kDurable, sizeof(RecordHeader), MemoryClass::kReserve) == Room::kNone) {
    return false;
  }
  std::uint64_t location = 0;
  auto* drop = reinterpret_cast<RecordHeader*>(
      TakeSpace(Stream::kDurable, sizeof(RecordHeader), kFooterEntryBytes, &location));
  *drop = RecordHeader{};
  drop->type = RecordType::kDrop;
  drop->partition = id.value();
  drop->lsn = below;
  CountTombstone(location, sizeof(RecordHeader));
  return true;
}

std::uint64_t Log::OldestDurable(std::uint32_t but) const {
  std::uint64_t oldest = durable_target_ == nullptr ? kNoNumber : durable_target_->OldestReleased();
  for (std::uint32_t index = 1; index < segments_.end(); ++index) {
    const Segment& segment = segments_[index];
    if (segment.state == SegmentState::kFree || !IsDurable(segment.stream) || segment.extent ||
        index == but) {
      continue;
    }
    oldest = std::min(oldest, segment.number);
  }
  return oldest;
}

std::uint32_t Log::OldestForTombstones() {
  if (tombstone_bytes_ <= kTombstoneSegments * segment_bytes_) return 0;
  std::uint64_t durable_bytes = 0;
  std::uint32_t oldest = 0;
  for (std::uint32_t index = 1; index < segments_.end(); ++index) {
    const Segment& segment = segments_[index];
    if (segment.state == SegmentState::kFree || !IsDurable(segment.stream) || segment.extent) {
      continue;
    }
    durable_bytes += segment.live;
    if (oldest == 0 || segment.number < segments_[oldest].number) oldest = index;
  }
  if (oldest == 0 || tombstone_bytes_ <= durable_bytes / 4) return 0;
  const Segment& segment = segments_[oldest];
  if (segment.state == SegmentState::kOpen) {
    // Where little is appended it would stay the oldest for ever.
    Open& open = open_[static_cast<int>(segment.stream)];
    if (open.left != 0 && segment.used != sizeof(SegmentHeader) &&
        segments_.AgeOf(segment) > kOpenAgeMax) {
      Seal(oldest);
      open = {};
    }
    return 0;
  }
  const bool is_whole =
      segment.state == SegmentState::kSealed || segment.state == SegmentState::kSpilled;
  return is_whole && segment.marked && segment.pins == 0 && !segment.unsound ? oldest : 0;
}

}  // namespace tidepool::storage
