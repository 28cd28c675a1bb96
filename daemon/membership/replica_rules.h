// Copies of partitions of namespaces with replicas: which are named, which are dropped, and which
// becomes the owner after the end of its owner's process. Pure rules.
//
//   membership/coordinator (before each save) -> [replica_rules]
//
// Rules (numbers of daemon/copies/README.md):
//   6. An owner that has ended, left, or is down is replaced by an in-sync copy on a node that is
//      up, under the next term. The store saves this only while the owner's process is certainly
//      gone (ClusterStore::SaveIfDead).
//   7. A restarted process holds no copy. A copy of a node that is not up is dropped while the
//      owner serves.
//   8. A partition with fewer copies than its namespace wants gets joining copies: on other hosts
//      first, then on nodes with few partitions.
#pragma once

#include <set>
#include <vector>

#include "daemon/membership/cluster_state.h"
#include "daemon/membership/cluster_store.h"

namespace tidepool::daemon {

// Applies the rules to `next`, the successor of `before`, and shows the entries in its map.
// `paused`: partitions that get no new copies yet. Returns the processes that must be gone when
// `next` is saved.
std::vector<DeadProcess> KeepReplicas(const ClusterState& before,
                                      const std::set<PartitionId>& paused, ClusterState* next);

// Returns whether KeepReplicas would name a copy.
bool LacksReplicas(const ClusterState& state, const std::set<PartitionId>& paused);

// Copies the entries of namespaces with replicas into the map, after the state was loaded.
void ShowReplicas(ClusterState* state);

}  // namespace tidepool::daemon
