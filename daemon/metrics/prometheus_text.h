// A node's status in Prometheus's text format.
//
//   services/node_status -> [metrics/prometheus_text] -> status_page/listener
#pragma once

#include <string>

#include "proto/placement/placement_map.h"
#include "tidepool/v1/cluster.pb.h"

namespace tidepool::daemon {

// Returns the text format, version 0.0.4, for this node alone: Prometheus asks each node. Omits
// sums over cores while a core does not answer, because Prometheus takes a falling counter for a
// restart.
std::string PrometheusText(const v1::NodeStatusResponse& status, const placement::PlacementMap& map,
                           const std::string& version);

}  // namespace tidepool::daemon
