// Reads all that a core has left on a volume, without changes, and reports the result that a
// recovery would have.
//
//   daemon/tools/nvm_tools -> [log_check] -> checkpoint, segment_reader, ring_replay,
//   counted_records
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "proto/base/ids.h"
#include "proto/base/result.h"
#include "storage/durable/checkpoint.h"
#include "storage/durable/counted_records.h"
#include "storage/durable/replay.h"
#include "storage/nvm/volume.h"

namespace tidepool::storage {

struct CheckedSegment {
  FoundSegment found;
  Checkpoint::Standing standing =
      Checkpoint::Standing::kBefore;  // kBefore if there is no checkpoint.
  std::uint32_t used = 0;             // Bytes, up to the end of its records.
  std::uint64_t records = 0;          // 0 for a segment of a large value.
  Status status;                      // kDataLoss: damaged; kDeviceError: unreadable.
};

struct CheckedPartition {
  PartitionId id;
  std::uint64_t records = 0;      // Present keys; of a lost partition: found keys.
  std::uint64_t bytes = 0;        // Bytes of these keys and their values.
  std::uint64_t lost_values = 0;  // Keys of these whose values are unreadable.
  Lsn last_lsn;
  StatusCode lost = StatusCode::kOk;  // Reason of a loss, as in RecoveryReport.
};

struct CoreCheck {
  FoundCheckpoints checkpoints;
  std::vector<CheckedSegment> segments;      // By number; segments that do not count were not read.
  bool has_all_segments = true;              // All segments that the checkpoint counts are present.
  std::uint64_t lost_below = 0;              // As Checkpoint::lost_below, or found now.
  std::uint64_t commits = 0;                 // Commits behind the checkpoint.
  std::uint64_t changes = 0;                 // Changes in these commits.
  std::uint64_t damaged_commit = 0;          // 0: no damaged commit.
  std::vector<CheckedPartition> partitions;  // Partitions of `wanted`, in that order.
  std::uint64_t bytes_read = 0;
};

// `segment`: null for a change of the commit ring.
using CheckVisit =
    absl::FunctionRef<void(const FoundSegment* segment, const ReplayedRecord& record)>;

// Checks a core of `volume`, which was opened with Volume::OpenForReading; once per core. `visit`
// receives all sound records that are not behind the checkpoint, also records that no longer
// count. Memory: some 70 bytes per key. Errors: kDeviceError (its checkpoints or its ring cannot
// be read).
Result<CoreCheck> CheckCore(Volume* volume, CoreId core,
                            std::span<const RecoverablePartition> wanted, CheckVisit visit);

}  // namespace tidepool::storage
