// The table of network settings that a daemon's life depends on, and the devices that they name.
// Shows no type of UCX. Used by ucx_transport.cc when a process starts its network.
#pragma once

#include <string>
#include <vector>

#include "proto/base/status.h"
#include "proto/transport/ucx_transport.h"

namespace tidepool::transport {

// One row: UCX's name without the "UCX_" and without the transport's name, its value, and why it
// is set.
struct UcxSetting {
  std::string name;
  std::string value;
  std::string why;
  bool of_tcp = false;  // A setting of the transport TCP; ucp_config_modify may want its prefix.
};

// Returns the names by which ucp_config_modify of a UCX version knows a setting. For TCP, 1.13
// takes "MAX_POLL" only and 1.18 "TCP_MAX_POLL" only; the other name is accepted there without
// effect. A version between gets both.
std::vector<std::string> UcxSettingNames(const std::string& name, bool of_tcp, unsigned major,
                                         unsigned minor);
// Returns the names for the UCX that runs.
std::vector<std::string> UcxSettingNames(const std::string& name, bool of_tcp);

// Every setting that is put over whatever the environment says.
std::vector<UcxSetting> UcxSettingsTable(const UcxSettings& settings);

// Devices that can carry data now, by UCX's names: network interfaces that are up and have an
// address ("eth0"), and ports of RDMA devices ("mlx5_0:1").
std::vector<std::string> UsableNetworkDevices();

// Errors: kInvalidArgument (empty list or element), kUnavailable (a device that is not there or is
// down; the message lists those that are usable).
Status CheckDevices(const UcxSettings& settings);

}  // namespace tidepool::transport
