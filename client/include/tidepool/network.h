// Transports and devices that the network library finds on this machine, with or without a cluster.
#pragma once

#include <string>
#include <vector>

#include "tidepool/export.h"

namespace tidepool {

struct NetworkWay {
  std::string transport;  // UCX's name: "tcp", "rc_verbs", ...
  std::string device;     // "eth0", "mlx5_0:1".
};

// Returns this machine's transports to other machines, used by a cluster or not. Client::Describe
// and Client::Ping report the transport to each node. Thread-safe.
TIDEPOOL_API std::vector<NetworkWay> NetworkWays();
// Returns true if an RDMA device provides this transport ("rc_verbs", "dc"). Thread-safe.
TIDEPOOL_API bool IsRdmaTransport(const std::string& transport);
// Returns the library's name and version: "UCX 1.13.1". Thread-safe.
TIDEPOOL_API std::string NetworkLibrary();

}  // namespace tidepool
