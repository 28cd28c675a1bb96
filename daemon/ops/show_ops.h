// Handlers that give clients the location of a partition's memory for direct reads.
//
//   daemon/ops/operation -> [daemon/ops/show_ops] -> storage/core_store, transport/remote_memory
#pragma once

#include <span>

#include "daemon/ops/operation.h"

namespace tidepool::daemon {

std::span<const HandlerEntry> ShowHandlers();

}  // namespace tidepool::daemon
