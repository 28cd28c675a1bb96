// What UCX finds on this machine: for people who look for the reason why something is slow.
#pragma once

#include <string>
#include <vector>

namespace tidepool::transport {

struct NetworkWay {
  std::string transport;  // As UCX names it: "tcp", "rc_verbs", "dc_mlx5", ...
  std::string device;     // "eth0", "mlx5_0:1".
};

// Between machines, whatever of it is used: transports of network devices that are up. Opens each
// device, some milliseconds for those of RDMA. Empty if UCX finds none.
std::vector<NetworkWay> NetworkWays();

// Whether a transport of this name is the work of an RDMA device.
bool IsRdmaTransport(const std::string& transport);

// "UCX 1.13.1", as it was loaded.
std::string NetworkLibrary();

}  // namespace tidepool::transport
