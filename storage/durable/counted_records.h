// Which of all the records that a core has left on the devices count, partition by partition.
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
  Term term;  // The greatest under which it was served.
  PartitionOptions options;
};

// Not thread-safe. Filled in this order: segments from the one that was begun last backwards, so
// that a partition's drop is known before what it has dropped; then the ring, forwards.
class CountedRecords {
 public:
  struct OfPartition {
    const RecoverablePartition* wanted = nullptr;  // Null: nobody wants it.
    std::uint64_t floor = 0;  // Of what is in segments with smaller numbers nothing counts.
    bool unwanted_found = false;
    bool dropped_in_ring = false;  // And only there: nothing of what is in segments counts.
    std::uint64_t floor_in_ring = 0;
    // As RecoveryReport::Of::lost.
    StatusCode lost = StatusCode::kOk;
    NewestRecords newest;
    bool IsSync() const {
      return wanted != nullptr && wanted->options.durability == Durability::kSync;
    }
  };

  // It must outlive this.
  void Want(const RecoverablePartition& partition);
  bool WantsSync() const;

  // A record of the segment with this number. `location`: of the caller's choice, other than that
  // of any other.
  void Visit(const ReplayedRecord& record, std::uint64_t number, std::uint64_t location);
  // A change of the ring, see ReplayRing. `number_of` a location: its segment's number.
  void VisitCommitted(const ReplayedRecord& record, std::uint64_t at,
                      absl::FunctionRef<std::uint64_t(std::uint64_t location)> number_of);
  // That segment was not read to its end, or is not there, and it is not known of whom it was.
  // Behind all segments and the ring.
  void NoteDamaged(std::uint64_t number, StatusCode code);
  // Some commit of the ring is missing.
  void NoteRingDamaged();

  OfPartition& Of(PartitionId id) { return partitions_[id.value()]; }
  const absl::flat_hash_map<std::uint32_t, OfPartition>& partitions() const { return partitions_; }

 private:
  absl::flat_hash_map<std::uint32_t, OfPartition> partitions_;
};

}  // namespace tidepool::storage
