#include "storage/durable/recovery.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "proto/base/check.h"
#include "proto/base/failpoint.h"
#include "proto/base/log.h"
#include "storage/core_store.h"
#include "storage/durable/checkpoint_traces.h"
#include "storage/durable/footer.h"
#include "storage/nvm/record_check.h"

namespace tidepool::storage {
namespace {

// First read of each segment: the footer of a segment with 2,046 records.
constexpr std::uint64_t kTailBytes = 64 * 1024;

}  // namespace

Result<RecoveryReport> Recovery::Run(std::span<const RecoverablePartition> partitions) {
  const std::uint64_t began_ns = clock_.MonotonicNs();
  for (const RecoverablePartition& partition : partitions) {
    records_.Want(partition);
  }
  auto queues = core_.options_.volume->OpenQueues(SegmentReader::kAhead);
  if (!queues.ok()) return queues.status();
  queues_ = *std::move(queues);
  TP_RETURN_IF_ERROR(ReadCheckpoints());
  SortSegments();
  TP_RETURN_IF_ERROR(FindLosses());
  TP_RETURN_IF_ERROR(ReplayAll());
  TP_RETURN_IF_ERROR(ReplayRing());
  TP_RETURN_IF_ERROR(Fill(partitions));
  TP_FAILPOINT("recovery.filled");
  TP_RETURN_IF_ERROR(WipeBeyond());
  TP_FAILPOINT("recovery.wiped");
  TP_RETURN_IF_ERROR(End());
  report_.duration_ns = clock_.MonotonicNs() - began_ns;
  return std::move(report_);
}

Status Recovery::ReadCheckpoints() {
  const Volume& volume = *core_.options_.volume;
  const auto checkpoints =
      storage::ReadCheckpoints(queues_[0].get(), volume.layout(0), core_.core(),
                               volume.found(0).volume, core_.log_.segments().first_number());
  if (!checkpoints.ok()) return checkpoints.status();
  // Slots that were not kept are written again as it comes.
  if (!volume.keeps_slots()) return OkStatus();
  checkpoint_ = checkpoints->newest;
  checkpoint_block_ = checkpoints->block;
  other_checkpoint_is_damaged_ = checkpoints->unsound > 0;
  if (checkpoint_.has_value() || checkpoints->unsound == 0) return OkStatus();
  return Status(StatusCode::kDataLoss,
                "core " + std::to_string(core_.core().value()) +
                    " finds no sound checkpoint: it is not known what of its segments counts",
                "start without this device's content: remove the file of each --nvm-dir");
}

void Recovery::SortSegments() {
  Volume& volume = *core_.options_.volume;
  for (const FoundSegment& found : volume.TakeFoundSegments(core_.core())) {
    // Without a checkpoint no segment counts; the next checkpoint begins behind all segments.
    const auto standing = checkpoint_.has_value() ? checkpoint_->StandingOf(found.number)
                                                  : Checkpoint::Standing::kBefore;
    if (standing == Checkpoint::Standing::kBefore) volume.FreeSlot(found.slot);
    if (standing == Checkpoint::Standing::kBeyond) beyond_.push_back(found);
    if (standing != Checkpoint::Standing::kCounts) continue;
    if (found.kind == SegmentKind::kExtent) {
      extents_.emplace(found.number, found);
    } else {
      counted_.push_back(found);
    }
  }
  std::sort(counted_.begin(), counted_.end(),
            [](const FoundSegment& a, const FoundSegment& b) { return a.number > b.number; });
}

Status Recovery::FindLosses() {
  if (!checkpoint_.has_value()) return OkStatus();
  const Volume& volume = *core_.options_.volume;
  const std::string core = std::to_string(core_.core().value());
  core_.log_.NoteLoss(checkpoint_->lost_below);
  if (!checkpoint_->HasAll(counted_)) {
    log::Error("core " + core + " does not find its segments: " + std::to_string(counted_.size()) +
               " are there, and its last checkpoint counts " +
               std::to_string(checkpoint_->segments.count) + "; what the missing ones had is lost");
    core_.log_.NoteLoss(checkpoint_->next);
  }
  // A mapping that was cut off in the middle of a checkpoint loses only that checkpoint: the one
  // before is complete.
  if (!other_checkpoint_is_damaged_ || volume.device(0).medium() == DeviceMedium::kDax)
    return OkStatus();
  const auto behind = HasRecordsBehind(volume, queues_, *checkpoint_, counted_);
  if (!behind.ok()) return behind.status();
  if (beyond_.empty() && !*behind) return OkStatus();
  log::Error("a checkpoint of core " + core +
             " is damaged, and the other one may not be the last one");
  core_.log_.NoteLoss(checkpoint_->next);
  return OkStatus();
}

Status Recovery::ReplayAll() {
  const std::uint64_t slot_bytes = core_.options_.volume->slot_bytes();
  SegmentReader reader(*core_.options_.volume, queues_, counted_);
  reader.set_bytes(std::min(kTailBytes, slot_bytes));
  report_.segments = counted_.size();
  for (const FoundSegment& found : counted_) {
    Bytes image;
    Status read = reader.Next(&image);
    report_.bytes_read += image.size();
    const std::uint32_t segment = core_.log_.AdoptSegment(
        found.number, static_cast<Stream>(found.stream), static_cast<std::uint32_t>(found.slot));
    if (segment == 0) {
      return Status(StatusCode::kResourceExhausted, "no memory for the table of segments",
                    "start with more --memory");
    }
    const std::uint32_t end = checkpoint_->EndOf(found.number);
    std::uint32_t used = 0;
    // In an open segment the footer may include records behind the checkpoint.
    if (read.ok() && end == 0) used = ReplayByFooter(found, segment, &reader, image);
    if (used == 0) {
      if (image.size() < slot_bytes) {
        read = reader.Again(slot_bytes, &image);
        report_.bytes_read += image.size();
      }
      if (read.ok()) {
        used = ReplaySegment({image, found.number, end},
                             [&](const ReplayedRecord& record) { Visit(record, found, segment); });
      }
    }
    core_.log_.EndAdoptedSegment(segment,
                                 used != 0 ? used : static_cast<std::uint32_t>(slot_bytes));
    if (used != 0) {
      segments_.push_back(segment);
    } else {
      NoteDamaged(found, read, segment);
    }
  }
  return OkStatus();
}

std::uint32_t Recovery::ReplayByFooter(const FoundSegment& found, std::uint32_t segment,
                                       SegmentReader* reader, Bytes tail) {
  const std::uint64_t slot_bytes = core_.options_.volume->slot_bytes();
  const std::uint64_t bytes = FooterBytes(tail, found.number);
  if (bytes > slot_bytes) return 0;
  if (bytes > tail.size()) {
    // The next footers will hardly be smaller.
    const std::uint64_t whole = AlignUp(bytes, kDeviceBlockBytes);
    reader->set_bytes(whole);
    if (!reader->Again(whole, &tail).ok()) return 0;
    report_.bytes_read += tail.size();
  }
  auto footer = Footer::Open(tail, found.number);
  if (footer.has_value() && !footer->tells_all()) {
    if (!reader->Again(slot_bytes, &tail).ok()) return 0;
    report_.bytes_read += tail.size();
    footer = Footer::Open(tail, found.number);
  }
  if (!footer.has_value()) return 0;
  Footer::Cursor cursor(*footer);
  for (ReplayedRecord entry; cursor.Next(&entry);) {
    Visit(Footer::Complete(entry, {tail, found.number}), found, segment);
  }
  if (footer->tells_all()) ++report_.from_footers;
  return footer->used();
}

void Recovery::Visit(const ReplayedRecord& record, const FoundSegment& found,
                     std::uint32_t segment) {
  const std::uint64_t location = core_.log_.segments().LocationOf(segment, record.offset);
  Adopt(record, location);
  records_.Visit(record, found.number, location);
}

void Recovery::NoteDamaged(const FoundSegment& found, const Status& read, std::uint32_t segment) {
  const StatusCode code = read.ok() ? StatusCode::kDataLoss : StatusCode::kDeviceError;
  log::Error("a durable segment (number " + std::to_string(found.number) + ", slot " +
             std::to_string(found.slot) + ") " +
             (read.ok() ? "is damaged" : "cannot be read: " + std::string(read.what())) +
             "; it keeps its slot, and what it had is lost");
  damaged_.push_back({found.number, code});
  // Records of this segment may be taken for the newest: it stays readable, as far as it is.
  core_.log_.segments()[segment].unsound = true;
  core_.log_.Pin(segment);
  // The loss is reported again at the next start, but not for partitions created from now on.
  core_.log_.NoteLoss(found.number + 1);
}

// Compaction treats each adopted drop and tombstone as valid, as from its beginning. It removes
// drops and tombstones that are no longer needed.
void Recovery::Adopt(const ReplayedRecord& record, std::uint64_t location) {
  const RecordType type = record.header.type;
  if (type != RecordType::kDrop && type != RecordType::kTombstone) return;
  core_.log_.AdoptRecord({location, 0, record.bytes, true});
}

// Hides data beyond the checkpoint from the next recovery: segments lose their headers, and open
// segments end where the checkpoint says.
Status Recovery::WipeBeyond() {
  const Volume& volume = *core_.options_.volume;
  for (const auto& [number, found] : extents_) beyond_.push_back(found);
  BlockBuffer block(kDeviceBlockBytes);
  const auto write = [&](std::uint64_t slot, std::uint64_t at) {
    const SlotPlace place = volume.Place(slot);
    return WriteBlocks(queues_[place.device].get(), place.offset + at, block.bytes());
  };
  for (const FoundSegment& found : beyond_) TP_RETURN_IF_ERROR(write(found.slot, 0));
  for (const FoundSegment& found : counted_) {
    const std::uint32_t end = checkpoint_->EndOf(found.number);
    const std::uint64_t last_block = volume.slot_bytes() - kDeviceBlockBytes;
    if (end == 0 || end > last_block) continue;
    std::memset(block.data(), 0, block.size());
    TP_RETURN_IF_ERROR(write(found.slot, last_block));  // A footer of more than counts.
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
  if (checkpoint_.has_value()) {
    report_.durable_at_ms = checkpoint_->at_ms;
    std::vector<std::uint64_t> numbers;
    for (const FoundSegment& found : counted_) numbers.push_back(found.number);
    core_.checkpointer_->GoOn(*checkpoint_, checkpoint_block_, numbers);
  }
  for (const std::uint32_t segment : segments_) core_.log_.DropIfDead(segment);
  core_.log_.FreeDead();
  for (const auto& [id, of] : records_.partitions()) {
    if (of.unwanted_found) core_.NoteDrop(PartitionId(id));
  }
  // No trace of a loss is left if the next checkpoint were damaged too, as on a bad block. Both
  // blocks therefore record it.
  if (other_checkpoint_is_damaged_)
    TP_RETURN_IF_ERROR(core_.checkpointer_->FinishCheckpoint(core_.NowMs()));
  return core_.checkpointer_->FinishCheckpoint(core_.NowMs());
}

}  // namespace tidepool::storage
