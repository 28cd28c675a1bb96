// Reads back, when a node starts, what it served durably before.
//
//   daemon/node/node -> [recovery] -> core_group -> storage::CoreStore::Recover
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/control/node_catalog.h"
#include "daemon/core/core_group.h"
#include "proto/base/ids.h"
#include "proto/base/result.h"

namespace tidepool::daemon {

struct RecoveredPartition {
  PartitionId id;
  Term term;          // Under which it was served last.
  Lsn last;           // The last change that is there.
  bool lost = false;  // Something of it is missing, and nobody knows what: it may not be served.
};

struct RecoverySummary {
  std::vector<RecoveredPartition> partitions;
  std::uint64_t records = 0;
  std::uint64_t bytes_read = 0;
  std::uint64_t duration_ms = 0;
  std::uint64_t durable_at_ms =
      0;  // Wall time of the oldest checkpoint that a core went by; 0: none.

  std::uint32_t lost() const;
};

// Has all cores read back their partitions, at the same time; before the first map. Each core's
// ownership decides with the first map which of them it serves again. Waits for the devices, as
// long as it takes; says in the log how far it is.
// Errors: kDeviceError, kDataLoss (the devices do not say what was durable), kResourceExhausted
// (the indexes need more memory); then the cores must not serve.
Result<RecoverySummary> RecoverNode(CoreGroup* cores, const NodeCatalog& catalog);

}  // namespace tidepool::daemon
