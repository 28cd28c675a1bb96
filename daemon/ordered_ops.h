// The operations on ranges of keys, of ordered namespaces: decoded request in, answer out, the
// store between. Those on single keys are hash_ops'.
//
//   client/bytes_ordered_map => daemon/dispatcher -> [daemon/ordered_ops] -> storage/ordered_store
#pragma once

#include <span>

#include "daemon/operation.h"

namespace tidepool::daemon {

std::span<const HandlerEntry> OrderedHandlers();

}  // namespace tidepool::daemon
