// Makes durable what this node's cores have applied, and tells what is.
//
//   services/namespaces_persist, daemon/node/node (clean stop) -> [persist] -> core_group
//   -> storage::CoreStore::Persist
#pragma once

#include <cstdint>

#include "daemon/core/core_group.h"
#include "proto/base/clock.h"
#include "proto/base/result.h"

namespace tidepool::daemon {

// What was applied on any core before this call outlives a crash when it returns; the result is the
// wall time in ms of the oldest checkpoint. For nodes with devices.
// Errors: kDeviceError (a device has failed: nothing becomes durable any more), kDeadlineExceeded
// (it may still become durable), kUnavailable (stopping). `is_last`: little comes behind it, so
// segments that are open end here, and have footers.
Result<std::uint64_t> PersistNode(CoreGroup* cores, Deadline deadline, bool is_last = false);

struct NodeDurability {
  std::uint64_t last_durable_at_ms = 0;  // Of the core whose checkpoint is oldest; 0: one has none.
  bool failed = false;                   // On some core nothing becomes durable any more.
};
// Cores that do not answer in time are left out.
NodeDurability DurabilityOf(CoreGroup* cores, Deadline deadline);

}  // namespace tidepool::daemon
