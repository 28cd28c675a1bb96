// The table of network settings that a daemon's life depends on, and the devices that they name.
// Shows no type of UCX. Used by ucx_transport.cc when a process starts its network.
#pragma once

#include <string>
#include <vector>

#include "proto/base/status.h"
#include "proto/transport/ucx_transport.h"

namespace tidepool::transport {

// One row: UCX's name without the "UCX_" and without the transport's name ("MAX_POLL", since
// "TCP_MAX_POLL" is not understood by ucp_config_modify), its value, and why it is set.
struct UcxSetting {
  std::string name;
  std::string value;
  std::string why;
};

// Every setting that is put over whatever the environment says.
std::vector<UcxSetting> UcxSettingsTable(const UcxSettings& settings);

// Devices that can carry data now, by UCX's names: network interfaces that are up and have an
// address ("eth0"), and ports of RDMA devices ("mlx5_0:1").
std::vector<std::string> UsableNetworkDevices();

// Errors: kInvalidArgument (empty list or element), kUnavailable (a device that is not there or is
// down; the message lists those that are usable).
Status CheckDevices(const UcxSettings& settings);

}  // namespace tidepool::transport
