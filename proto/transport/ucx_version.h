// Differences between the versions of UCX that Tidepool runs with.
//
//   ucx_transport, rdma_context, settings -> [ucx_version] -> UCX
#pragma once

#include <compare>
#include <string>

#include "proto/base/status.h"

namespace tidepool::transport {

struct UcxVersion {
  unsigned major = 0;
  unsigned minor = 0;

  friend auto operator<=>(const UcxVersion&, const UcxVersion&) = default;
};

// Returns the version of the UCX that is loaded in this process.
UcxVersion RunningUcx();

// Checks that the transport's tests and kills of clients have passed with this version. In another
// version a setting may be silently off, and a killed client may then end a daemon.
// Errors: kFailedPrecondition, naming the version, the proved versions, and a remedy.
Status CheckUcxVersion(const UcxVersion& version);

// The first version that binds the source of a connection, and has a setting against that.
inline constexpr UcxVersion kBindsSourceSince = {1, 18};

// Returns ucp_config_modify's name of a setting. For settings of TCP, versions below 1.17 take
// "MAX_POLL" only, later versions "TCP_MAX_POLL" only. The other name has no effect there; from
// 1.20.1 on it is an error.
std::string UcxSettingName(const std::string& name, bool of_tcp, const UcxVersion& version);

// Checks that a frame of the largest size leaves in a single piece over an endpoint of TCP. `sizes`
// is UCX's list of protocols by size ("am_send: 0..<egr/short>..65529..<egr/zcopy>..(inf)"). A
// frame above that size would never be sent.
// Errors: kFailedPrecondition.
Status CheckFrameSize(const std::string& sizes);

}  // namespace tidepool::transport
