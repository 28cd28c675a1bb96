// What all nodes say of themselves, and the map of their namespaces: what kvctl status and the
// status page show.
//
//   Cluster.Status, status_page -> [cluster_status] -> node_status
#pragma once

#include "daemon/control/node_state.h"
#include "tidepool/v1/cluster.pb.h"

namespace tidepool::daemon {

// Of a node that has joined. Takes a second at most for nodes that do not answer.
void CollectClusterStatus(NodeState* node, Deadline deadline, v1::StatusResponse* response);

}  // namespace tidepool::daemon
