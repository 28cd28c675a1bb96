// Handlers of operations on ranges of keys in ordered namespaces: decoded request in, answer out.
// hash_ops has the operations on single keys.
//
//   client/api/bytes_ordered_map => daemon/core/dispatcher -> [daemon/ops/ordered_ops] ->
//   storage/ordered_store
#pragma once

#include <span>

#include "daemon/ops/operation.h"

namespace tidepool::daemon {

std::span<const HandlerEntry> OrderedHandlers();

}  // namespace tidepool::daemon
