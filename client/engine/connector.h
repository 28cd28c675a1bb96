// Finds the cluster, and the network device that leads to it.
#pragma once

#include <memory>
#include <string>

#include "client/engine/engine.h"
#include "proto/base/channel_security.h"
#include "proto/base/result.h"
#include "proto/cluster_file/host_name.h"
#include "tidepool/client.h"

namespace tidepool::internal {

// The whole of Client::Connect. Errors: see there.
Result<std::shared_ptr<Engine>> ConnectEngine(const ConnectOptions& options);

// The second half of it, where the cluster is known by its control addresses.
// `parts.connect.devices` may be empty. Errors: as ConnectEngine.
Result<std::shared_ptr<Engine>> MakeEngine(EngineOptions parts, std::string token,
                                           ChannelSecurity security);

// The device over which this machine would reach host:port, as UCX names it: "lo" for loopback
// addresses. Asks the kernel's routing table; nothing is sent.
// Errors: kInvalidArgument (not host:port), kUnavailable (unknown host, no route).
Result<std::string> DeviceFor(const std::string& address);

// This machine's name, as daemons give theirs.
using cluster_file::HostName;

}  // namespace tidepool::internal
