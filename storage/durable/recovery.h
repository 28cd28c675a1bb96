// Restores the durable partitions of a core as they were at its last checkpoint.
//
//   CoreStore::Recover -> [Recovery] -> Volume, replay, CoreStore
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "proto/base/clock.h"
#include "proto/base/ids.h"
#include "proto/base/result.h"
#include "storage/device/device_io.h"
#include "storage/durable/checkpoint.h"
#include "storage/durable/counted_records.h"
#include "storage/durable/replay.h"
#include "storage/durable/segment_reader.h"
#include "storage/nvm/slot_scan.h"
#include "storage/partition.h"

namespace tidepool::storage {

class CoreStore;

struct RecoveryReport {
  struct Of {
    PartitionId id;
    std::uint64_t records = 0;
    Lsn last_lsn;
    // Other than kOk: the found records are there, but unknown keys are missing. kDataLoss (a
    // segment is damaged), kDeviceError (a segment cannot be read).
    StatusCode lost = StatusCode::kOk;
  };
  std::vector<Of> partitions;
  std::uint64_t bytes_read = 0;
  std::uint64_t segments = 0;      // Record segments.
  std::uint64_t from_footers = 0;  // Record segments of which only the footer was read.
  std::uint64_t duration_ns = 0;
  std::uint64_t durable_at_ms = 0;  // Wall time of the checkpoint that was found. 0: no checkpoint.
};

// Owner core only, used once. Waits for the devices.
//
// Segments are replayed from the youngest backwards, so a partition's drop is known before the
// records that it drops. A footer replaces the read of a sealed segment, unless keys or extents
// are needed. No segment content stays in DRAM; the index is built from the read data. Before the
// next checkpoint, recovery makes unreadable: data beyond the checkpoint, and extents that no
// counting record names. That checkpoint ends recovery: a crash before it leaves the old
// checkpoint and all that it needs. Extents themselves are not read: an extent is whole if a
// counting record names it.
class Recovery {
 public:
  Recovery(CoreStore& core, const Clock& clock) : core_(core), clock_(clock) {}
  // Runs the recovery. Errors: as CoreStore::Recover.
  Result<RecoveryReport> Run(std::span<const RecoverablePartition> partitions);

 private:
  struct Damaged {
    std::uint64_t number;
    StatusCode code;
  };

  Status ReadCheckpoints();
  void SortSegments();
  Status FindLosses();
  Status ReplayAll();
  // Returns the end of the records; 0: not all of them could be replayed.
  std::uint32_t ReplayByFooter(const FoundSegment& found, std::uint32_t segment,
                               SegmentReader* reader, Bytes tail);
  void Visit(const ReplayedRecord& record, const FoundSegment& found, std::uint32_t segment);
  void NoteDamaged(const FoundSegment& found, const Status& read, std::uint32_t segment);
  void Adopt(const ReplayedRecord& record, std::uint64_t location);
  Status ReplayRing();
  std::uint64_t AppendCommitted(PartitionId id, const NewestRecords::Entry& entry);
  Status Fill(std::span<const RecoverablePartition> partitions);
  bool FillOne(Partition& partition, const NewestRecords& newest);
  bool FillInOrder(Partition& partition, const NewestRecords& newest);
  bool FillItems(Partition& partition, const NewestRecords& newest);
  bool FillFilter(Partition& partition, const NewestRecords& newest);
  bool FillRecord(Partition& partition, const NewestRecords::Entry& entry);
  std::uint64_t Settle(PartitionId id, const NewestRecords::Entry& entry);
  bool SettleExtent(PartitionId id, const NewestRecords::Entry& entry);
  bool SettleTombstone(PartitionId id, const NewestRecords::Entry& entry);
  Status WipeBeyond();
  Status End();

  CoreStore& core_;
  const Clock& clock_;
  DeviceQueues queues_;
  std::optional<Checkpoint> checkpoint_;
  std::uint64_t checkpoint_block_ = 0;
  bool other_checkpoint_is_damaged_ = false;
  std::vector<FoundSegment> counted_;  // Below the checkpoint, the youngest first.
  std::vector<FoundSegment> beyond_;
  // Extent segments that may count, by number; in the end, the segments that do not count.
  absl::flat_hash_map<std::uint64_t, FoundSegment> extents_;
  std::vector<std::uint32_t> segments_;  // Adopted and sound.
  std::vector<Damaged> damaged_;
  CountedRecords records_;
  BlockBuffer ring_;                // Content of the ring, if it counts.
  std::optional<RingPosition> at_;  // End of the replayed part of the ring.
  RecoveryReport report_;
};

}  // namespace tidepool::storage
