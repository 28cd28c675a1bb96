// Whether a cluster still lives where a connection file says it did. Ports are given out again:
// what listens there may be a daemon of another cluster.
#pragma once

#include <string>

#include "proto/cluster_file/cluster_file.h"

namespace tidepool::convert {

// What gRPC's health service calls the cluster of a node.
std::string HealthNameOf(const std::string& cluster_uuid);

// Whether a node of the cluster of `file` answers at `control_address`, within a second. True also
// if its daemons ask for a certificate that this program was not given: it cannot know.
bool ProbeCluster(const cluster_file::ClusterFile& file, const std::string& control_address);

}  // namespace tidepool::convert
