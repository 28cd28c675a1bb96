// What nodes say of themselves: this one by asking its cores, the others by NodeStatus calls, all
// at once and with a short deadline, so that a stopped node costs a second and hangs nobody.
//
//   Cluster.Status, Namespaces.Describe, Admin.CheckStop -> [node_status] -> core_group; other
//   nodes
#pragma once

#include <map>
#include <vector>

#include "daemon/control/node_state.h"
#include "tidepool/v1/cluster.pb.h"

namespace tidepool::daemon {

inline constexpr std::uint64_t kNodeStatusTimeoutMs = 1000;

// `partitions_of` 0: no list of partitions. `residence`: with where their records are.
v1::NodeStatusResponse LocalNodeStatus(NodeState* node, NamespaceId partitions_of,
                                       Deadline deadline, bool residence = false);

// Index = NodeId of `map`. Nodes that the map says are not up are not asked: kUnavailable.
// Errors: kUnavailable, kDeadlineExceeded and others of the call, each naming the node.
std::vector<Result<v1::NodeStatusResponse>> CollectNodeStatus(NodeState* node,
                                                              const placement::PlacementMap& map,
                                                              NamespaceId partitions_of,
                                                              Deadline deadline,
                                                              bool residence = false);

// A namespace on all nodes that answered.
struct NamespaceTotals {
  std::uint64_t records = 0;           // As users see them.
  std::uint64_t internal_records = 0;  // What staging keeps for itself.
  std::uint64_t live_bytes = 0;        // Of both.
  bool saved = true;                   // On every node.
};

// Of the answers of CollectNodeStatus, or of one node. Unless all have answered, what staging keeps
// for itself is not known and counts as records.
std::map<NamespaceId, NamespaceTotals> TotalsOf(
    NodeState* node, const placement::PlacementMap& map,
    const std::vector<Result<v1::NodeStatusResponse>>& nodes);

}  // namespace tidepool::daemon
