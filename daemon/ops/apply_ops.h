// The operation that applies a function to a record.
//
//   daemon/ops/operation -> [daemon/ops/apply_ops] -> daemon/ops/functions, storage/hash_store
#pragma once

#include <span>

#include "daemon/ops/operation.h"

namespace tidepool::daemon {

std::span<const HandlerEntry> ApplyHandlers();

}  // namespace tidepool::daemon
