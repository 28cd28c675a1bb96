// Where the records of a namespace are on this node: each core looks at its own, in slices between
// its operations.
//
//   services/node_status -> [residence] -> core_group -> storage/residence
#pragma once

#include <map>

#include "daemon/core/core_group.h"
#include "storage/residence.h"

namespace tidepool::daemon {

struct PartitionResidence {
  storage::Residence where;  // Of its keys and values; adds up to what PartitionStats says of it.
  std::uint64_t reads = 0;   // Since it was opened here.
  std::uint64_t device_reads = 0;  // Of these: that waited for a device.
};

// By index of the partition. Looks at some 65,536 records of the node at most: of more it is a
// sample, right to about a hundredth. Takes each core some ms, 100 us at a time. Partitions that go
// meanwhile, and those of cores that do not answer within the deadline, are left out.
std::map<std::uint32_t, PartitionResidence> ResidenceOf(CoreGroup* cores, NamespaceId space,
                                                        Deadline deadline);

}  // namespace tidepool::daemon
