// Status of all nodes and the map of their namespaces, for kvctl status and the status page.
//
//   Cluster.Status, status_page -> [cluster_status] -> node_status
#pragma once

#include "daemon/control/node_state.h"
#include "tidepool/v1/cluster.pb.h"

namespace tidepool::daemon {

// Fills `response` on a node that has joined. Waits at most a second for nodes that do not answer.
void CollectClusterStatus(NodeState* node, Deadline deadline, v1::StatusResponse* response);

}  // namespace tidepool::daemon
