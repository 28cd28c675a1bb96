// What a node has done in its life, written when it stops in good order.
//
//   daemon/node/node (Drain) -> [status_page/summary] -> a file
#pragma once

#include <string>

#include "daemon/control/node_state.h"

namespace tidepool::daemon {

// Collects it while the node still serves its partitions; JSON, with a newline.
std::string MakeSummary(NodeState* node, Deadline deadline);

}  // namespace tidepool::daemon
