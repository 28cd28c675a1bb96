// The operations on records, of hash and ordered namespaces: decoded request in, answer out, the
// store between.
//
//   client/bytes_map => daemon/dispatcher -> [daemon/hash_ops] -> storage/hash_store
#pragma once

#include <span>

#include "daemon/operation.h"

namespace tidepool::daemon {

std::span<const HandlerEntry> HashHandlers();

}  // namespace tidepool::daemon
