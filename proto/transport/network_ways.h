// Transports that UCX finds on this machine: for people who search the cause of slow transfers.
#pragma once

#include <string>
#include <vector>

namespace tidepool::transport {

struct NetworkWay {
  std::string transport;  // UCX's name: "tcp", "rc_verbs", "dc_mlx5", ...
  std::string device;     // "eth0", "mlx5_0:1".
};

// Returns the transports between machines, used or not: transports of network devices that are up.
// Opens each device, some milliseconds for RDMA devices. Empty if UCX finds no transport.
std::vector<NetworkWay> NetworkWays();

// Returns whether a transport of this name is the work of an RDMA device.
bool IsRdmaTransport(const std::string& transport);

// Returns "UCX 1.13.1", as it was loaded.
std::string NetworkLibrary();

}  // namespace tidepool::transport
