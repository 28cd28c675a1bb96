// Large values: segments of their own, and the way of these to a device and back.
#include <algorithm>
#include <cstring>
#include <utility>

#include "proto/base/check.h"
#include "storage/log.h"
#include "storage/nvm/slot_pool.h"
#include "storage/spill/fetched_records.h"

namespace tidepool::storage {

void Log::ExtentSegmentsOf(std::uint64_t location, const RecordHeader& record,
                           std::vector<std::uint32_t>& segments) const {
  TP_DCHECK(record.type == RecordType::kPutExtent);
  if (MaySpill(segments_[segments_.IndexOf(location)].stream)) {
    segments = extents_.at(location);
    return;
  }
  segments.resize(ShapeOfExtent(record.value_bytes, segment_bytes_).segments);
  const std::byte* link = StoredOf(record).data();
  for (std::uint32_t& segment : segments) {
    segment = LoadExtentLink(link).index;
    link += kExtentLinkBytes;
  }
}

Bytes Log::ExtentRemainderOf(const RecordHeader& record) const {
  return StoredOf(record).subspan(ShapeOfExtent(record.value_bytes, segment_bytes_).link_bytes());
}

bool Log::FindExtent(std::uint64_t location, std::vector<std::uint32_t>& segments) const {
  if (MaySpill(segments_[segments_.IndexOf(location)].stream)) {
    const auto found = extents_.find(location);
    if (found == extents_.end()) return false;
    segments = found->second;
    return true;
  }
  // Others stay in DRAM.
  const RecordHeader* const record = Peek(location);
  if (record == nullptr || record->type != RecordType::kPutExtent) return false;
  ExtentSegmentsOf(location, *record, segments);
  return true;
}

void Log::LinkExtent(std::uint64_t location, std::byte* record,
                     std::span<const std::uint32_t> segments) {
  std::byte* link =
      record + sizeof(RecordHeader) + reinterpret_cast<const RecordHeader*>(record)->key_bytes;
  for (const std::uint32_t index : segments) {
    StoreExtentLink(link, {segments_[index].number, index});
    link += kExtentLinkBytes;
  }
  if (MaySpill(segments_[segments_.IndexOf(location)].stream)) {
    extents_[location].assign(segments.begin(), segments.end());
  }
}

void Log::MoveExtent(std::uint64_t from, std::uint64_t to) {
  auto moved = extents_.extract(from);
  if (moved.empty()) return;
  moved.key() = to;
  extents_.insert(std::move(moved));
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

bool Log::MakeExtentDurable(std::span<const std::uint32_t> segments) {
  for (const std::uint32_t index : segments) {
    Segment& segment = segments_[index];
    if (IsDurable(segment.stream)) continue;  // Published before, or tried before.
    const std::uint64_t slot = durable_target_->TakeSlot(MemoryClass::kUser);
    if (slot == kNoSlot) return false;
    segment.slot = static_cast<std::uint32_t>(slot + 1);
    segment.stream = Stream::kDurable;
    auto* header = reinterpret_cast<SegmentHeader*>(segments_.Base(index));
    header->stream = static_cast<std::uint8_t>(segment.stream);
  }
  return true;
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
    left -= live;
    if (segment.live == live) continue;
    if (segment.live == 0) {
      --unpublished_segments_;
      segment.records = 1;
      segment.stream = stream;
    }
    live_bytes_ += live;
    live_bytes_ -= segment.live;
    segment.live = live;
    segment.used = static_cast<std::uint32_t>(kExtentHeaderBytes + live);
    if (!IsDurable(stream)) {
      Offer(index);
      continue;
    }
    TP_CHECK(segment.slot != 0);
    segment.frozen_to = segment.used;
    durable_bytes_ += live;
    durable_target_->NoteSealed(index);
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

bool Log::LookExtent(std::uint64_t location, const RecordHeader& record) {
  ExtentSegmentsOf(location, record, looked_segments_);
  bool all = true;
  for (const std::uint32_t index : looked_segments_) {
    if (index == 0) {
      blocked_ = true;
      lost_ = StatusCode::kDataLoss;
      return false;
    }
    Segment& segment = segments_[index];
    segment.read = true;
    if (fetched_ != nullptr) fetched_->UseExtent(index);
    if (segment.state != SegmentState::kSpilled) continue;
    all = false;
    blocked_ = true;
    const std::uint64_t at = segments_.LocationOf(index, 0);
    const FetchedRecords::Record* found = fetched_ == nullptr ? nullptr : fetched_->Find(at);
    found != nullptr ? void(lost_ = found->code) : Want(at);
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
