// Makes durable what this node's cores have applied, and reports what is durable.
//
//   services/namespaces_persist, daemon/node/node (clean stop) -> [persist] -> core_group
//   -> storage::CoreStore::Persist
#pragma once

#include <cstdint>

#include "daemon/core/core_group.h"
#include "proto/base/clock.h"
#include "proto/base/result.h"

namespace tidepool::daemon {

// Waits until every change that any core applied before this call survives a crash. Returns the
// wall time in ms of the oldest checkpoint. For nodes with devices. `is_last`: few changes follow,
// so open segments are closed with footers.
// Errors: kDeviceError (a device has failed: nothing more becomes durable), kDeadlineExceeded (it
// may still become durable), kUnavailable (stopping).
Result<std::uint64_t> PersistNode(CoreGroup* cores, Deadline deadline, bool is_last = false);

struct NodeDurability {
  std::uint64_t last_durable_at_ms =
      0;  // Checkpoint time of the core whose checkpoint is oldest; 0: a core has none.
  bool failed = false;  // Nothing more becomes durable on some core.
};
// Collects the durability of all cores; omits cores that do not answer in time.
NodeDurability DurabilityOf(CoreGroup* cores, Deadline deadline);

}  // namespace tidepool::daemon
