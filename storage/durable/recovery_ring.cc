// Recovery: what the commit ring has beyond the mark.
#include <algorithm>
#include <string>
#include <utility>

#include "proto/base/log.h"
#include "storage/core_store.h"
#include "storage/durable/recovery.h"

namespace tidepool::storage {

Status Recovery::ReplayRing() {
  bool any = false;
  for (const auto& [id, of] : partitions_) any = any || of.IsSync();
  if (!mark_.has_value() || !any) return OkStatus();
  const DeviceLayout& layout = core_.options_.volume->layout(0);
  ring_ = BlockBuffer(layout.ring_bytes);
  TP_RETURN_IF_ERROR(
      ReadBlocks(queues_[0].get(), layout.RingOffset(core_.core().value()), ring_.bytes()));
  report_.bytes_read += ring_.size();
  at_ = mark_->ring;
  at_->offset %= ring_.size();
  // A commit that does not fit behind the last one begins at the ring's beginning.
  while (ReplayCommitAt(at_->offset) || ReplayCommitAt(0)) {
  }
  core_.ring_->GoOn(*at_);
  if (!HasLaterCommit()) return OkStatus();
  log::Error("commit " + std::to_string(at_->commit) + " of core " +
             std::to_string(core_.core().value()) +
             " is damaged, and there is a later one: what both had is lost");
  for (auto& [id, of] : partitions_) {
    if (of.IsSync()) of.lost = StatusCode::kDataLoss;
  }
  return OkStatus();
}

// False: the next commit does not lie there.
bool Recovery::ReplayCommitAt(std::uint64_t offset) {
  const auto commit = ReadCommit(std::as_const(ring_).bytes().subspan(offset));
  if (!commit.ok() || commit->header.number != at_->commit ||
      commit->header.previous_crc32c != at_->checksum || !IsOurs(commit->header)) {
    return false;
  }
  const std::uint64_t records_at = offset + sizeof(CommitHeader);
  const bool sound = ReplayCommit(commit->records, [&](const ReplayedRecord& record) {
    VisitCommitted(record, records_at + record.offset);
  });
  if (!sound) return false;
  at_->commit = commit->header.number + 1;
  at_->checksum = commit->header.crc32c;
  at_->offset = AlignUp(records_at + commit->records.size(), kDeviceBlockBytes) % ring_.size();
  return true;
}

// Each incarnation begins with a mark of its own and writes on where it found the end. A torn
// commit of the one before may still lie there, with the next number and the right checksum before
// it: a torn write over it can bring the very bytes that it lacked (equal sectors: values of one
// letter, zeros), and it would be whole after the second crash.
bool Recovery::IsOurs(const CommitHeader& header) const {
  return header.volume == core_.options_.volume->found(0).volume &&
         header.core == core_.core().value() && header.incarnation == mark_->incarnation;
}

// One commit was under way at a time, so behind a torn one there is none.
bool Recovery::HasLaterCommit() const {
  for (std::uint64_t at = 0; at < ring_.size(); at += kDeviceBlockBytes) {
    const auto commit = ReadCommit(ring_.bytes().subspan(at));
    if (commit.ok() && IsOurs(commit->header) && commit->header.number >= at_->commit) return true;
  }
  return false;
}

void Recovery::VisitCommitted(const ReplayedRecord& record, std::uint64_t at) {
  OfPartition& of = Of(record.header.partition);
  // Of the others only what a mark covers counts, drops included.
  if (!of.IsSync()) return;
  // The mark covers it, and what came after it: a drop would not come again.
  if (CommitPosition(record.header) <= mark_->ring.position) return;
  if (record.header.type == RecordType::kDrop) {
    const SegmentTable& segments = core_.log_.segments();
    of.newest.Drop([&](std::uint64_t location) {
      return segments[segments.IndexOf(location)].number < record.header.lsn;
    });
    // Else the mark has covered it.
    of.dropped_in_ring = of.dropped_in_ring || of.floor < record.header.lsn;
    return;
  }
  if (Lsn(record.header.lsn).term() > of.wanted->term) {
    of.lost = StatusCode::kDataLoss;
    return;
  }
  of.newest.Add(NewestRecords::KeyOf(record), record, at, true);
}

// What only the ring has goes to the log again, so that the mark at the end covers it.
bool Recovery::AppendCommitted(Partition& partition, std::uint64_t hash,
                               const NewestRecords::Entry& entry) {
  const auto* header = reinterpret_cast<const RecordHeader*>(ring_.data() + entry.location);
  LogRecord change;
  change.partition = partition.id();
  change.lsn = Lsn(entry.lsn);
  change.key = Log::KeyOf(*header);
  change.hash = hash;
  change.expiry_ms = entry.expiry_ms;
  if (!entry.tombstone) {
    change.value = core_.log_.StoredOf(*header);
    change.value_bytes = header->value_bytes;
    change.value_flags = header->flags & kCounterFlags;
  }
  const RecordType type = entry.tombstone ? RecordType::kTombstone : RecordType::kPut;
  const std::uint64_t bytes = Log::EncodedBytes(change, type);
  if (core_.log_.MakeRoom(Stream::kDurable, bytes, MemoryClass::kReserve) != Room::kReady) {
    return false;
  }
  const std::uint64_t location = core_.log_.Append(Stream::kDurable, change, type, change.lsn);
  return entry.tombstone || partition.hash().Adopt(hash, location, entry.payload_bytes);
}

}  // namespace tidepool::storage
