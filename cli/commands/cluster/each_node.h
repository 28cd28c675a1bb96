// The same question to each node that is up.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/invocation.h"
#include "proto/base/result.h"
#include "tidepool/v1/cluster.pb.h"

namespace tidepool::cli {

// Calls `ask` for each node that is up in the map. Failures are printed on standard error and make
// the command end with "partial". If all nodes fail, the first failure is returned.
Status AskEachNode(Invocation& run,
                   const std::function<Status(Channel& channel, const v1::Node& node)>& ask);

}  // namespace tidepool::cli
