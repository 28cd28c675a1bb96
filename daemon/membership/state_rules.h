// What each change of the cluster's state must keep, whatever the change is.
//
//   membership/coordinator (before and after each save) -> [state_rules]
//
// Rules:
//   1. An epoch is the epoch before it, plus 1.
//   2. The cluster's UUID never changes, nor do the UUID and the index of a node. A node's
//      incarnation never falls.
//   3. A partition's term never falls. A new owner or a new core has a greater term: so one grant
//   of
//      a partition is live.
//   4. A changed entry of a partition has a greater version. A node has at most one copy of a
//      partition, and none of a partition that it owns.
//   5. A namespace's id is given once. A changed namespace says so by the epoch of the change.
#pragma once

#include <string_view>

#include "daemon/membership/cluster_state.h"

namespace tidepool::daemon {

// Returns the rule that `next` breaks as the successor of `before`; empty: none. Costs a look at
// each namespace, and at each partition of those that differ.
std::string_view BrokenRule(const ClusterState& before, const ClusterState& next);

}  // namespace tidepool::daemon
