// Whether a cluster still lives where a connection file says it did. Ports are given out again:
// what listens there may be a daemon of another cluster.
#pragma once

#include <string>

namespace tidepool::convert {

// What gRPC's health service calls the cluster of a node.
std::string HealthNameOf(const std::string& cluster_uuid);

// Whether a node of cluster `cluster_uuid` answers at `address`, within a second.
bool ProbeCluster(const std::string& address, const std::string& cluster_uuid);

}  // namespace tidepool::convert
