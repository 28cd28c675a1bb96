// What the network library finds on this machine, with or without a cluster.
#pragma once

#include <string>
#include <vector>

#include "tidepool/export.h"

namespace tidepool {

struct NetworkWay {
  std::string transport;  // As UCX names it: "tcp", "rc_verbs", ...
  std::string device;     // "eth0", "mlx5_0:1".
};

// Transports to other machines that this one has, whether a cluster uses them or not; how a client
// reaches a node is said by Client::Describe and Client::Ping. Thread-safe.
TIDEPOOL_API std::vector<NetworkWay> NetworkWays();
// Whether a transport of this name ("rc_verbs", "dc") is the work of an RDMA device. Thread-safe.
TIDEPOOL_API bool IsRdmaTransport(const std::string& transport);
// "UCX 1.13.1". Thread-safe.
TIDEPOOL_API std::string NetworkLibrary();

}  // namespace tidepool
