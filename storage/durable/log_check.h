// Reads all that a core has left on a volume, changes nothing, and says what a recovery would make
// of it.
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
      Checkpoint::Standing::kBefore;  // Without a checkpoint nothing counts.
  std::uint32_t used = 0;             // Bytes, up to the end of its records.
  std::uint64_t records = 0;          // Of one of a large value, none.
  Status status;                      // kDataLoss: damaged; kDeviceError: it cannot be read.
};

struct CheckedPartition {
  PartitionId id;
  std::uint64_t records = 0;      // Keys that are there; of one that is lost those that were found.
  std::uint64_t bytes = 0;        // Of these keys and their values.
  std::uint64_t lost_values = 0;  // Of these keys, those whose values cannot be read.
  Lsn last_lsn;
  StatusCode lost = StatusCode::kOk;  // As RecoveryReport::Of::lost.
};

struct CoreCheck {
  FoundCheckpoints checkpoints;
  std::vector<CheckedSegment> segments;      // By number; those that do not count were not read.
  bool has_all_segments = true;              // That the checkpoint counts.
  std::uint64_t lost_below = 0;              // As Checkpoint::lost_below, or found now.
  std::uint64_t commits = 0;                 // Behind the checkpoint.
  std::uint64_t changes = 0;                 // In them.
  std::uint64_t damaged_commit = 0;          // 0: none is.
  std::vector<CheckedPartition> partitions;  // As wanted.
  std::uint64_t bytes_read = 0;
};

// `segment`: null for a change of the commit ring.
using CheckVisit =
    absl::FunctionRef<void(const FoundSegment* segment, const ReplayedRecord& record)>;

// `volume` was opened with Volume::OpenForReading; each core is checked once. `visit` sees all
// records that are sound and not behind the checkpoint, those that do not count any more too.
// Memory: some 70 bytes for each key. Errors: kDeviceError (its checkpoints or its ring cannot be
// read).
Result<CoreCheck> CheckCore(Volume* volume, CoreId core,
                            std::span<const RecoverablePartition> wanted, CheckVisit visit);

}  // namespace tidepool::storage
