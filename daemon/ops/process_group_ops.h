// Handlers of the operations of process groups.
//
//   daemon/core/dispatcher -> [process_group_ops] -> daemon/ops/process_groups
#pragma once

#include <span>

#include "daemon/ops/operation.h"

namespace tidepool::daemon {

std::span<const HandlerEntry> ProcessGroupHandlers();

}  // namespace tidepool::daemon
