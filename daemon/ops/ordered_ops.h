// The operations on ranges of keys, of ordered namespaces: decoded request in, answer out, the
// store between. Those on single keys are hash_ops'.
//
//   client/api/bytes_ordered_map => daemon/core/dispatcher -> [daemon/ops/ordered_ops] ->
//   storage/ordered_store
#pragma once

#include <span>

#include "daemon/ops/operation.h"

namespace tidepool::daemon {

std::span<const HandlerEntry> OrderedHandlers();

}  // namespace tidepool::daemon
