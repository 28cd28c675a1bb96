// Handlers of operations on records of hash and ordered namespaces: decoded request in, answer out.
//
//   client/api/bytes_map => daemon/core/dispatcher -> [daemon/ops/hash_ops] -> storage/hash_store
#pragma once

#include <span>

#include "daemon/ops/operation.h"

namespace tidepool::daemon {

std::span<const HandlerEntry> HashHandlers();

}  // namespace tidepool::daemon
