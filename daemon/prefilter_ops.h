// The operations on prefilters, by their number on the wire.
//
//   daemon/operation -> [daemon/prefilter_ops] -> storage/prefilter
#pragma once

#include <span>

#include "daemon/operation.h"

namespace tidepool::daemon {

std::span<const HandlerEntry> PrefilterHandlers();

}  // namespace tidepool::daemon
