// The SDK's client for the verbs that use the fast path: ping, bench, watch, and those of queues
// and ordered namespaces.
#pragma once

#include <tidepool/client.h>

#include <string>
#include <string_view>

#include "cli/invocation.h"
#include "proto/base/kind.h"

namespace tidepool::cli {

// Connects as --cluster and --timeout say, and --transport where the verb has it. Errors: as
// Client::Connect, but a missing connection file is kUnavailable as everywhere in kvctl;
// kInvalidArgument (--timeout, --transport). `uncounted`: as ConnectOptions::uncounted, for verbs
// that look after a cluster.
Result<Client> ConnectSdk(Invocation& run, bool uncounted = false);

// The row of --transport.
Option TransportOption();

// How a verb says that `client` could not open `space` as one of the kinds that it needs: of
// another kind as WrongKind, which the daemons say too; else `failure`.
Status OpenFailure(Client& client, const std::string& space, const Status& failure,
                   std::string_view verb, KindMask needs);

}  // namespace tidepool::cli
