// A node's status as Prometheus reads it.
//
//   services/node_status -> [metrics/prometheus_text] -> status_page/listener
#pragma once

#include <string>

#include "proto/placement/placement_map.h"
#include "tidepool/v1/cluster.pb.h"

namespace tidepool::daemon {

// The text format, version 0.0.4. Of this node alone: Prometheus asks each. What sums up over cores
// is left out while one of them does not answer, as a counter that falls looks like a new start.
std::string PrometheusText(const v1::NodeStatusResponse& status, const placement::PlacementMap& map,
                           const std::string& version);

}  // namespace tidepool::daemon
