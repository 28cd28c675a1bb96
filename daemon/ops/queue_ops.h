// Handlers of the operations on items: pushing, popping, leases.
//
//   daemon/core/dispatcher -> [daemon/ops/queue_ops] -> storage/queue_store
#pragma once

#include <span>

#include "daemon/ops/operation.h"

namespace tidepool::daemon {

std::span<const HandlerEntry> QueueHandlers();

}  // namespace tidepool::daemon
