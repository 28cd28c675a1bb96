#include "storage/durable/recovery.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "proto/base/check.h"
#include "proto/base/log.h"
#include "storage/core_store.h"
#include "storage/durable/segment_reader.h"
#include "storage/nvm/record_check.h"

namespace tidepool::storage {
namespace {

constexpr std::size_t kPrefetched = 16;  // Buckets of an index that are being filled.

}  // namespace

Result<RecoveryReport> Recovery::Run(std::span<const RecoverablePartition> partitions) {
  const std::uint64_t began_ns = clock_.MonotonicNs();
  for (const RecoverablePartition& partition : partitions) {
    Of(partition.id.value()).wanted = &partition;
  }
  auto queues = core_.options_.volume->OpenQueues(SegmentReader::kAhead);
  if (!queues.ok()) return queues.status();
  queues_ = *std::move(queues);
  TP_RETURN_IF_ERROR(ReadMarks());
  SortSegments();
  TP_RETURN_IF_ERROR(ReplayAll());
  TP_RETURN_IF_ERROR(ReplayRing());
  TP_RETURN_IF_ERROR(Fill(partitions));
  TP_RETURN_IF_ERROR(WipeBeyond());
  TP_RETURN_IF_ERROR(End());
  report_.duration_ns = clock_.MonotonicNs() - began_ns;
  return std::move(report_);
}

Status Recovery::ReadMarks() {
  const Volume& volume = *core_.options_.volume;
  BlockBuffer block(kDeviceBlockBytes);
  bool damaged = false;
  for (std::uint64_t which = 0; which < kMarkSlotsPerCore; ++which) {
    const std::uint64_t at = volume.layout(0).MarkOffset(core_.core().value(), which);
    TP_RETURN_IF_ERROR(ReadBlocks(queues_[0].get(), at, block.bytes()));
    const auto mark = DecodeMark(block.bytes());
    // A volume that was made anew in the same place is blank here.
    const bool ours = mark.ok() && mark->volume == volume.found(0).volume &&
                      mark->core == core_.core().value() &&
                      mark->next <= core_.log_.segments().first_number();
    if (!ours) {
      damaged = damaged || mark.ok() || mark.code() != StatusCode::kNotFound;
    } else if (!mark_.has_value() || mark->sequence > mark_->sequence) {
      mark_ = *mark;
      mark_block_ = which;
    }
  }
  // Slots that were not kept are written again as it comes.
  if (!volume.keeps_slots()) {
    mark_.reset();
    return OkStatus();
  }
  if (mark_.has_value() || !damaged) return OkStatus();
  return Status(StatusCode::kDataLoss,
                "core " + std::to_string(core_.core().value()) +
                    " finds no sound mark: it is not known what of its segments counts",
                "start without this device's content: remove the file of each --nvm-dir");
}

// What a mark says of an open segment; 0: it was sealed.
std::uint32_t Recovery::EndOf(std::uint64_t number) const {
  for (const Mark::Open& open : mark_->open) {
    if (open.number != number) continue;
    // Nothing in it: not even its header counts.
    if (open.end == 0) return sizeof(SegmentHeader);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(open.end, UINT32_MAX));
  }
  return 0;
}

void Recovery::SortSegments() {
  Volume& volume = *core_.options_.volume;
  for (const FoundSegment& found : volume.TakeFoundSegments(core_.core())) {
    // Without a mark nothing counts; the next one begins behind all that is there.
    if (!mark_.has_value() || found.number < mark_->first) {
      volume.FreeSlot(found.slot);
    } else if (found.number >= mark_->next || EndOf(found.number) == sizeof(SegmentHeader)) {
      beyond_.push_back(found);
    } else {
      counted_.push_back(found);
    }
  }
  std::sort(counted_.begin(), counted_.end(),
            [](const FoundSegment& a, const FoundSegment& b) { return a.number > b.number; });
}

Status Recovery::ReplayAll() {
  SegmentReader reader(*core_.options_.volume, queues_, counted_);
  for (const FoundSegment& found : counted_) {
    Bytes image;
    const Status read = reader.Next(&image);
    TP_RETURN_IF_ERROR(Replay(found, read, image));
  }
  return OkStatus();
}

Status Recovery::Replay(const FoundSegment& found, const Status& read, Bytes image) {
  report_.bytes_read += image.size();
  const std::uint32_t segment = core_.log_.AdoptSegment(
      found.number, static_cast<Stream>(found.stream), static_cast<std::uint32_t>(found.slot));
  if (segment == 0) {
    return Status(StatusCode::kResourceExhausted, "no memory for the table of segments",
                  "start with more --memory");
  }
  std::uint32_t used = 0;
  if (read.ok()) {
    SegmentHeader header;
    std::memcpy(&header, image.data(), sizeof header);
    if (header.crc32c == SegmentChecksum(header) && header.number == found.number) {
      used = ReplaySegment(
          {image, found.number, EndOf(found.number)},
          [&](const ReplayedRecord& record) { Visit(record, found.number, segment); });
      AddVisited();
    }
  }
  if (used != 0) {
    core_.log_.EndAdoptedSegment(segment, used);
    segments_.push_back(segment);
    return OkStatus();
  }
  const StatusCode code = read.ok() ? StatusCode::kDataLoss : StatusCode::kDeviceError;
  log::Error("a durable segment (number " + std::to_string(found.number) + ", slot " +
             std::to_string(found.slot) + ") " +
             (read.ok() ? "is damaged" : "cannot be read: " + std::string(read.what())) +
             "; it keeps its slot, and what it had is lost");
  damaged_.push_back({found.number, code});
  // Whatever was found in it may be taken for the newest: it stays readable, as far as it is.
  core_.log_.EndAdoptedSegment(segment, static_cast<std::uint32_t>(image.size()));
  core_.log_.segments()[segment].unsound = true;
  core_.log_.Pin(segment);
  return OkStatus();
}

void Recovery::Visit(const ReplayedRecord& record, std::uint64_t number, std::uint32_t segment) {
  OfPartition& of = Of(record.header.partition);
  const std::uint64_t location = core_.log_.segments().LocationOf(segment, record.offset);
  if (record.header.type == RecordType::kDrop) {
    of.floor = std::max(of.floor, record.header.lsn);
    core_.log_.AdoptRecord({location, 0, record.bytes, true});
    return;
  }
  // Compaction takes each tombstone that it meets for one that counts, as it counts from its
  // beginning; it drops those that nobody needs.
  if (record.header.type == RecordType::kTombstone) {
    core_.log_.AdoptRecord({location, 0, record.bytes, true});
  }
  if (number < of.floor) return;
  if (of.wanted == nullptr) {
    of.unwanted_found = true;
    return;
  }
  // Of a term that the catalog knows nothing of: one of the two is not what was written.
  if (Lsn(record.header.lsn).term() > of.wanted->term) {
    of.lost = StatusCode::kDataLoss;
    return;
  }
  // Each is a miss of the cache, or two: several at once.
  const NewestRecords::Key key = NewestRecords::KeyOf(record);
  of.newest.Prefetch(key);
  visited_[visited_count_++] = {record, key, location, record.header.partition};
  if (visited_count_ == visited_.size()) AddVisited();
}

void Recovery::AddVisited() {
  for (std::size_t i = 0; i < visited_count_; ++i) {
    const Visited& each = visited_[i];
    Of(each.partition).newest.Add(each.key, each.record, each.location, false);
  }
  visited_count_ = 0;
}

Status Recovery::FillOne(Partition& partition, const NewestRecords& newest) {
  // Nothing may be compacted before all of it is known.
  const ReclaimingScope scope(core_.log_);
  auto ahead = newest.entries().begin();
  std::size_t left_behind = 0;
  for (const auto& [key, entry] : newest.entries()) {
    for (; left_behind < kPrefetched && ahead != newest.entries().end(); ++left_behind, ++ahead) {
      partition.hash().PrefetchBucket(ahead->first.hash);
    }
    --left_behind;
    bool done = true;
    if (entry.in_ring) {
      done = AppendCommitted(partition, key.hash, entry);
    } else if (!entry.tombstone) {
      core_.log_.AdoptRecord({entry.location, entry.expiry_ms, entry.bytes, false});
      done = partition.hash().Adopt(key.hash, entry.location, entry.payload_bytes);
    }
    if (done) continue;
    return Status(StatusCode::kResourceExhausted,
                  "no memory for what partition " + std::to_string(partition.id().value()) +
                      " has left on the device",
                  "start with at least the --memory of the last time");
  }
  return OkStatus();
}

Status Recovery::Fill(std::span<const RecoverablePartition> partitions) {
  for (const RecoverablePartition& wanted : partitions) {
    OfPartition& of = Of(wanted.id.value());
    for (const Damaged& damaged : damaged_) {
      if (damaged.number >= of.floor) of.lost = damaged.code;
    }
    const auto added = core_.AddFilled(wanted, of.newest.puts());
    if (!added.ok()) return added.status();
    Partition& partition = **added;
    // Before what the ring has of the one after it goes to the log.
    if (of.dropped_in_ring) core_.NoteDrop(wanted.id);
    TP_RETURN_IF_ERROR(FillOne(partition, of.newest));
    partition.RaiseLsn(of.newest.last_lsn());
    report_.partitions.push_back({wanted.id, of.newest.puts(), partition.last_lsn(), of.lost});
    of.newest = {};
  }
  return OkStatus();
}

// What lies beyond the mark must not count for the next recovery: segments lose their headers, and
// those that were open end where the mark says.
Status Recovery::WipeBeyond() {
  const Volume& volume = *core_.options_.volume;
  BlockBuffer block(kDeviceBlockBytes);
  const auto write = [&](std::uint64_t slot, std::uint64_t at) {
    const SlotPlace place = volume.Place(slot);
    return WriteBlocks(queues_[place.device].get(), place.offset + at, block.bytes());
  };
  for (const FoundSegment& found : beyond_) TP_RETURN_IF_ERROR(write(found.slot, 0));
  for (const FoundSegment& found : counted_) {
    const std::uint32_t end = EndOf(found.number);
    if (end == 0 || end + kDeviceBlockBytes > volume.slot_bytes()) continue;
    std::memset(block.data(), 0, block.size());
    auto* last = reinterpret_cast<RecordHeader*>(block.data());
    last->crc32c = RecordChecksum(*last, sizeof *last, found.number);
    TP_RETURN_IF_ERROR(write(found.slot, end));
  }
  for (const auto& queue : queues_) TP_RETURN_IF_ERROR(FlushDevice(queue.get()));
  return OkStatus();
}

Status Recovery::End() {
  Volume& volume = *core_.options_.volume;
  for (const FoundSegment& found : beyond_) volume.FreeSlot(found.slot);
  if (mark_.has_value()) {
    report_.durable_at_ms = mark_->at_ms;
    core_.marker_->GoOn(*mark_, mark_block_);
  }
  for (const std::uint32_t segment : segments_) core_.log_.DropIfDead(segment);
  core_.log_.FreeDead();
  for (const auto& [id, of] : partitions_) {
    if (of.unwanted_found) core_.NoteDrop(PartitionId(id));
  }
  return core_.marker_->FinishMark(core_.NowMs());
}

}  // namespace tidepool::storage
