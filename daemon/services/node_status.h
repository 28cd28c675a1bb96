// Status of nodes: this node asks its cores; other nodes are asked by NodeStatus calls, all at once
// and with a short deadline, so that a stopped node costs a second at most.
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

// `partitions_of` 0: without a list of partitions. `residence`: includes where their records are.
v1::NodeStatusResponse LocalNodeStatus(NodeState* node, NamespaceId partitions_of,
                                       Deadline deadline, bool residence = false);

// Returns the status by NodeId of `map`. Nodes that the map shows as not up are not asked:
// kUnavailable.
// Errors: kUnavailable, kDeadlineExceeded and others of the call, each naming the node.
std::vector<Result<v1::NodeStatusResponse>> CollectNodeStatus(NodeState* node,
                                                              const placement::PlacementMap& map,
                                                              NamespaceId partitions_of,
                                                              Deadline deadline,
                                                              bool residence = false);

// Totals of a namespace over all nodes that answered.
struct NamespaceTotals {
  std::uint64_t records = 0;           // Users' records.
  std::uint64_t internal_records = 0;  // Records of staging.
  std::uint64_t live_bytes = 0;        // Bytes of both.
  bool saved = true;                   // True if saved on every node.
};

// Adds up the results of CollectNodeStatus, or one node's. If a node did not answer, staging's
// records are unknown and count as users' records.
std::map<NamespaceId, NamespaceTotals> TotalsOf(
    NodeState* node, const placement::PlacementMap& map,
    const std::vector<Result<v1::NodeStatusResponse>>& nodes);

}  // namespace tidepool::daemon
