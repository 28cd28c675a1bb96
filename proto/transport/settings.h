// The table of network settings that a daemon's life depends on, and the devices that they name.
// Shows no type of UCX. Used by ucx_transport.cc when a process starts its network.
#pragma once

#include <string>
#include <vector>

#include "proto/base/status.h"
#include "proto/transport/ucx_transport.h"
#include "proto/transport/ucx_version.h"

namespace tidepool::transport {

// One row: UCX's name without the "UCX_" and without the transport's name, its value, and why it
// is set.
struct UcxSetting {
  std::string name;
  std::string value;
  std::string why;
  bool of_tcp = false;  // A setting of the transport TCP; see UcxSettingName.
};

// Returns the settings that override the environment, for a version of UCX.
std::vector<UcxSetting> UcxSettingsTable(const UcxSettings& settings,
                                         const UcxVersion& version = RunningUcx());

// Returns the name of a setting of the table in the running UCX.
std::string NameOf(const UcxSetting& setting);

// Devices that can carry data now, by UCX's names: network interfaces that are up and have an
// address ("eth0"), and ports of RDMA devices ("mlx5_0:1").
std::vector<std::string> UsableNetworkDevices();

// Errors: kInvalidArgument (empty list or element), kUnavailable (a device that is absent or down;
// the message lists the usable devices).
Status CheckDevices(const UcxSettings& settings);

}  // namespace tidepool::transport
