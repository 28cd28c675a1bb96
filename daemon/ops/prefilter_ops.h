// Handlers of operations on prefilters.
//
//   daemon/ops/operation -> [daemon/ops/prefilter_ops] -> storage/prefilter
#pragma once

#include <span>

#include "daemon/ops/operation.h"

namespace tidepool::daemon {

std::span<const HandlerEntry> PrefilterHandlers();

}  // namespace tidepool::daemon
