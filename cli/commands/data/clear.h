// kvctl namespace clear.
#pragma once

#include "proto/base/status.h"

namespace tidepool::cli {

class Invocation;

// Empties NAMESPACE, which stays with its options.
Status ClearNamespace(Invocation& run);

}  // namespace tidepool::cli
