// Checks whether the cluster of a connection file still lives there. Ports are given out again: the
// listener there may be a daemon of another cluster.
#pragma once

#include <string>

#include "proto/cluster_file/cluster_file.h"

namespace tidepool::convert {

// Returns the name of a node's cluster in gRPC's health service.
std::string HealthNameOf(const std::string& cluster_uuid);

// Returns whether a node of the cluster of `file` answers at `control_address`, within a second.
// True also if its daemons ask for a certificate that this program was not given: it cannot know.
bool ProbeCluster(const cluster_file::ClusterFile& file, const std::string& control_address);

}  // namespace tidepool::convert
