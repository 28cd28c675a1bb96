// The operation that applies a function to a record, by its number on the wire.
//
//   daemon/operation -> [daemon/apply_ops] -> daemon/functions, storage/hash_store
#pragma once

#include <span>

#include "daemon/operation.h"

namespace tidepool::daemon {

std::span<const HandlerEntry> ApplyHandlers();

}  // namespace tidepool::daemon
