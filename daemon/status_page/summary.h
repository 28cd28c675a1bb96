// Summary of a node's work, written when it stops in good order.
//
//   daemon/node/node (Drain) -> [status_page/summary] -> a file
#pragma once

#include <string>

#include "daemon/control/node_state.h"

namespace tidepool::daemon {

// Returns the summary as JSON with a final newline. Call while the node still serves its
// partitions.
std::string MakeSummary(NodeState* node, Deadline deadline);

}  // namespace tidepool::daemon
