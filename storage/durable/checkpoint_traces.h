// Whether anything was written behind a checkpoint: tells one that is the last from one that is
// not, where the other one is damaged.
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

// Of a checkpoint that has a later one with other contents there is a trace: a segment beyond it,
// which the caller sees, or a record behind the end of one that it has open, among `counted`.
// Waits. Errors: kDeviceError.
Result<bool> HasRecordsBehind(const Volume& volume, const DeviceQueues& queues,
                              const Checkpoint& checkpoint, std::span<const FoundSegment> counted);

}  // namespace tidepool::storage
