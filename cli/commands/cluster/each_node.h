// The same question to each node that is up, by itself.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/invocation.h"
#include "proto/base/result.h"
#include "tidepool/v1/cluster.pb.h"

namespace tidepool::cli {

// Calls `ask` for each node that the map has for up. Those that fail are said on standard error and
// make the command end with "partial"; if all do, the first failure is returned.
Status AskEachNode(Invocation& run,
                   const std::function<Status(Channel& channel, const v1::Node& node)>& ask);

}  // namespace tidepool::cli
