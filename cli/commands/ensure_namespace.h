// For verbs that create the namespace they fill: load, stage in, bench.
#pragma once

#include <string>

#include "cli/invocation.h"

namespace tidepool::cli {

// Creates a hash namespace with the default options unless there is one of that name, and says so
// on standard error. Returns: whether it was created. Errors: of the service.
Result<bool> EnsureNamespace(Invocation& run, const std::string& name);

}  // namespace tidepool::cli
