// The SDK's client for the verbs on the fast path: ping, bench, watch, and the verbs of queues and
// ordered namespaces.
#pragma once

#include <tidepool/client.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cli/invocation.h"
#include "proto/base/kind.h"

namespace tidepool::cli {

// Connects as --cluster and --timeout say, and --transport where the verb has it. Errors: as
// Client::Connect, but a missing connection file is kUnavailable as everywhere in kvctl;
// kInvalidArgument (--timeout, --transport). `uncounted`: as ConnectOptions::uncounted, for verbs
// that look after a cluster. `call_timeout_ms`: another deadline of calls than --timeout.
Result<Client> ConnectSdk(Invocation& run, bool uncounted = false,
                          std::optional<std::uint64_t> call_timeout_ms = std::nullopt);

// The row of --transport.
Option TransportOption();

// Returns the error of a verb that could not open `space` as one of its kinds. A wrong kind is
// reported as WrongKind, which the daemons report too; otherwise returns `failure`.
Status OpenFailure(Client& client, const std::string& space, const Status& failure,
                   std::string_view verb, KindMask needs);

}  // namespace tidepool::cli
