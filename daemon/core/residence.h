// Counts where the records of a namespace are on this node: each core examines its own records, in
// slices between its operations.
//
//   services/node_status -> [residence] -> core_group -> storage/residence
#pragma once

#include <map>

#include "daemon/core/core_group.h"
#include "storage/residence.h"

namespace tidepool::daemon {

struct PartitionResidence {
  storage::Residence where;        // Bytes of keys and values; the sum equals PartitionStats.
  std::uint64_t reads = 0;         // Reads since the partition was opened here.
  std::uint64_t device_reads = 0;  // Reads that waited for a device.
};

// Returns the residence by partition index. Examines at most some 65,536 records of the node; with
// more records it is a sample, accurate to about 1 %. Takes each core some ms, 100 us at a time.
// Omits partitions that end meanwhile, and partitions of cores that do not answer within the
// deadline.
std::map<std::uint32_t, PartitionResidence> ResidenceOf(CoreGroup* cores, NamespaceId space,
                                                        Deadline deadline);

}  // namespace tidepool::daemon
