// Finds writes behind a checkpoint. If the core's other checkpoint is damaged, they show that a
// later checkpoint existed.
//
//   recovery, log_check -> [checkpoint_traces] -> replay
#pragma once

#include <span>

#include "proto/base/result.h"
#include "storage/device/device_io.h"
#include "storage/durable/checkpoint.h"
#include "storage/nvm/slot_scan.h"
#include "storage/nvm/volume.h"

namespace tidepool::storage {

// Returns whether `counted` has a record behind the end of a segment that the checkpoint has open.
// A later checkpoint with other contents leaves a trace: a segment beyond this checkpoint, which
// the caller sees, or a record of this kind. Waits. Errors: kDeviceError.
Result<bool> HasRecordsBehind(const Volume& volume, const DeviceQueues& queues,
                              const Checkpoint& checkpoint, std::span<const FoundSegment> counted);

}  // namespace tidepool::storage
