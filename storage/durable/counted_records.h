// Finds which records that a core has left on the devices count, partition by partition.
//
//   recovery, log_check -> [counted_records] -> newest_records
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/functional/function_ref.h>

#include <cstdint>

#include "proto/base/ids.h"
#include "proto/base/status.h"
#include "storage/durable/newest_records.h"
#include "storage/durable/replay.h"
#include "storage/partition.h"

namespace tidepool::storage {

struct RecoverablePartition {
  PartitionId id;
  Term term;  // Greatest term under which it was served.
  PartitionOptions options;
};

// Not thread-safe. Visit segments first, from the youngest backwards: a partition's drop is then
// known before the records that it drops. Then visit the ring, forwards.
class CountedRecords {
 public:
  struct OfPartition {
    const RecoverablePartition* wanted = nullptr;  // Null: the partition is not wanted.
    std::uint64_t floor = 0;  // Records in segments with smaller numbers do not count.
    bool unwanted_found = false;
    bool dropped_in_ring = false;  // Dropped only in the ring: no record in a segment counts.
    std::uint64_t floor_in_ring = 0;
    // Reason of a loss, as in RecoveryReport.
    StatusCode lost = StatusCode::kOk;
    NewestRecords newest;
    bool IsSync() const {
      return wanted != nullptr && wanted->options.durability == Durability::kSync;
    }
  };

  // Registers a partition to recover. It must outlive this.
  void Want(const RecoverablePartition& partition);
  bool WantsSync() const;

  // Handles a record of segment `number`. The caller chooses `location`, unique for each
  // record.
  void Visit(const ReplayedRecord& record, std::uint64_t number, std::uint64_t location);
  // Handles a change of the ring, see ReplayRing. `number_of`: segment number of a location.
  void VisitCommitted(const ReplayedRecord& record, std::uint64_t at,
                      absl::FunctionRef<std::uint64_t(std::uint64_t location)> number_of);
  // Records that a segment was not read to its end, or is missing; its partitions are unknown. Call
  // it after all segments and the ring.
  void NoteDamaged(std::uint64_t number, StatusCode code);
  // Records that a commit of the ring is missing.
  void NoteRingDamaged();

  OfPartition& Of(PartitionId id) { return partitions_[id.value()]; }
  const absl::flat_hash_map<std::uint32_t, OfPartition>& partitions() const { return partitions_; }

 private:
  absl::flat_hash_map<std::uint32_t, OfPartition> partitions_;
};

}  // namespace tidepool::storage
