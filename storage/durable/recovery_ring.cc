// Recovery: replays the commit ring beyond the checkpoint.
#include <string>
#include <utility>

#include "proto/base/log.h"
#include "storage/core_store.h"
#include "storage/durable/recovery.h"
#include "storage/durable/ring_replay.h"

namespace tidepool::storage {

Status Recovery::ReplayRing() {
  if (!checkpoint_.has_value() || !records_.WantsSync()) return OkStatus();
  const DeviceLayout& layout = core_.options_.volume->layout(0);
  ring_ = BlockBuffer(layout.ring_bytes);
  TP_RETURN_IF_ERROR(
      ReadBlocks(queues_[0].get(), layout.RingOffset(core_.core().value()), ring_.bytes()));
  report_.bytes_read += ring_.size();
  const SegmentTable& segments = core_.log_.segments();
  const RingReplay replay =
      storage::ReplayRing(std::as_const(ring_).bytes(), *checkpoint_,
                          [&](const ReplayedRecord& record, std::uint64_t at) {
                            records_.VisitCommitted(record, at, [&](std::uint64_t location) {
                              return segments[segments.IndexOf(location)].number;
                            });
                          });
  core_.ring_->GoOn(replay.end);
  if (!replay.is_damaged) return OkStatus();
  log::Error("commit " + std::to_string(replay.end.commit) + " of core " +
             std::to_string(core_.core().value()) +
             " is damaged, and there is a later one: what both had is lost");
  records_.NoteRingDamaged();
  return OkStatus();
}

// Appends a change of the ring to the log again, so that the final checkpoint covers it. Returns
// its location; 0: no memory.
std::uint64_t Recovery::AppendCommitted(PartitionId id, const NewestRecords::Entry& entry) {
  const auto* header = reinterpret_cast<const RecordHeader*>(ring_.data() + entry.location);
  LogRecord change;
  change.partition = id;
  change.lsn = Lsn(entry.lsn);
  change.key = Log::KeyOf(*header);
  change.keyed = (header->flags & kRecordKeyed) != 0;
  if (entry.type != RecordType::kTombstone) {
    change.expiry_ms = entry.expiry_ms;
    change.value = core_.log_.StoredOf(*header);
    change.value_bytes = header->value_bytes;
    change.value_flags = header->flags & kCounterFlags;
  }
  const std::uint64_t bytes = Log::EncodedBytes(change, entry.type);
  if (core_.log_.MakeRoom(Stream::kDurable, bytes, MemoryClass::kReserve) != Room::kReady) return 0;
  return core_.log_.Append(Stream::kDurable, change, entry.type, change.lsn);
}

}  // namespace tidepool::storage
