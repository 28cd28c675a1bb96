// The SDK's client for the verbs that use the fast path: ping, bench, watch, and those of queues
// and ordered namespaces.
#pragma once

#include <tidepool/client.h>

#include "cli/invocation.h"

namespace tidepool::cli {

// Connects as --cluster and --timeout say. Errors: as Client::Connect, but a missing connection
// file is kUnavailable as everywhere in kvctl; kInvalidArgument (--timeout).
Result<Client> ConnectSdk(Invocation& run);

}  // namespace tidepool::cli
