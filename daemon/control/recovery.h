// Reads back, when a node starts, the partitions that it served durably before.
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
  Term term;  // Term of the last service.
  Lsn last;   // Last change that was read back.
  bool lost =
      false;  // Records are missing and it is unknown which, so the partition may not be served.
};

struct RecoverySummary {
  std::vector<RecoveredPartition> partitions;
  std::uint64_t records = 0;
  std::uint64_t bytes_read = 0;
  std::uint64_t duration_ms = 0;
  std::uint64_t durable_at_ms =
      0;  // Wall time of the oldest checkpoint that a core started from; 0: none.

  std::uint32_t lost() const;
};

// Lets all cores read back their partitions at the same time. Call before the first map: with it,
// each core's ownership decides which partitions it serves again. Waits for the devices as long as
// needed and logs the progress.
// Errors: kDeviceError, kDataLoss (the devices do not say what was durable), kResourceExhausted
// (the indexes need more memory). After an error the cores must not serve.
Result<RecoverySummary> RecoverNode(CoreGroup* cores, const NodeCatalog& catalog);

}  // namespace tidepool::daemon
