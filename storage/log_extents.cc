// Large values: segments of their own, and the way of these to a device and back.
#include <algorithm>
#include <cstring>
#include <utility>

#include "proto/base/check.h"
#include "storage/log.h"
#include "storage/spill/fetched_records.h"

namespace tidepool::storage {

void Log::ExtentSegmentsOf(const RecordHeader& record, std::vector<std::uint32_t>& segments) const {
  TP_DCHECK(record.type == RecordType::kPutExtent);
  segments.resize(ShapeOfExtent(record.value_bytes, segment_bytes_).segments);
  std::memcpy(segments.data(), StoredOf(record).data(), segments.size() * 4);
}

Bytes Log::ExtentRemainderOf(const RecordHeader& record) const {
  return StoredOf(record).subspan(ShapeOfExtent(record.value_bytes, segment_bytes_).segments * 4);
}

std::uint32_t Log::BeginExtentSegment() {
  const std::uint32_t index =
      segments_.Begin(SegmentKind::kExtent, Stream::kVolatile, MemoryClass::kUser);
  if (index != 0) ++unpublished_segments_;
  return index;
}

std::uint32_t Log::AllocateExtentSegment() {
  std::uint32_t index = BeginExtentSegment();
  if (index != 0) return index;
  FreeDead();
  index = BeginExtentSegment();
  if (index != 0 || !Reclaim()) return index;
  return BeginExtentSegment();
}

void Log::AdoptExtent(std::span<const std::uint32_t> segments, std::uint64_t value_bytes,
                      Stream stream) {
  const std::uint64_t capacity = ExtentSegmentCapacity(segment_bytes_);
  if (MaySpill(stream)) {
    extent_segments_max_ = std::max<std::uint64_t>(extent_segments_max_, segments.size());
  }
  std::uint64_t left = value_bytes;
  for (const std::uint32_t index : segments) {
    Segment& segment = segments_[index];
    const auto live = static_cast<std::uint32_t>(std::min(left, capacity));
    TP_DCHECK(live > 0);
    // What an append has kept may be on its way to the device.
    TP_CHECK(segment.state == SegmentState::kExtent || segment.live == live);
    if (segment.live == 0) {
      --unpublished_segments_;
      segment.records = 1;
      segment.stream = stream;
    }
    if (segment.live != live) Offer(index);
    live_bytes_ += live;
    live_bytes_ -= segment.live;
    segment.live = live;
    segment.used = static_cast<std::uint32_t>(kExtentHeaderBytes + live);
    left -= live;
  }
}

void Log::KillExtentSegment(std::uint32_t index) {
  Segment& segment = segments_[index];
  TP_CHECK(segment.extent);
  if (segment.live == 0) --unpublished_segments_;
  if (segment.state == SegmentState::kSpilled) spilled_live_bytes_ -= segment.live;
  live_bytes_ -= segment.live;
  segment.live = 0;
  segment.records = 0;
  // Else it goes when its write has ended.
  if (segment.state != SegmentState::kWriting) MarkDead(index);
}

bool Log::LookExtent(const RecordHeader& record) {
  ExtentSegmentsOf(record, looked_segments_);
  bool all = true;
  for (const std::uint32_t index : looked_segments_) {
    Segment& segment = segments_[index];
    segment.read = true;
    if (fetched_ != nullptr) fetched_->UseExtent(index);
    if (segment.state != SegmentState::kSpilled) continue;
    all = false;
    blocked_ = true;
    const std::uint64_t location = segments_.LocationOf(index, 0);
    const FetchedRecords::Record* found = fetched_ == nullptr ? nullptr : fetched_->Find(location);
    found != nullptr ? void(lost_ = found->code) : Want(location);
  }
  return all;
}

bool Log::ThawExtent(std::uint32_t index) {
  Segment& segment = segments_[index];
  if (segment.state == SegmentState::kWriting) return false;
  TP_CHECK(segment.state == SegmentState::kExtent);
  if (segment.slot != 0) spill_target_->ReleaseSlot(std::exchange(segment.slot, 0) - 1);
  return true;
}

bool Log::LeaveUnwritten(std::uint32_t index) {
  Segment& segment = segments_[index];
  TP_CHECK(segment.state == SegmentState::kExtent);
  TP_CHECK(segment.slot != 0);
  if (segment.pins != 0) return false;
  segment.state = SegmentState::kWriting;
  return LeaveMemory(index);
}

}  // namespace tidepool::storage
