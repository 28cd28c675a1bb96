// Handlers of the operations of process groups.
//
//   daemon/dispatcher -> [process_group_ops] -> daemon/process_groups
#pragma once

#include <span>

#include "daemon/operation.h"

namespace tidepool::daemon {

std::span<const HandlerEntry> ProcessGroupHandlers();

}  // namespace tidepool::daemon
