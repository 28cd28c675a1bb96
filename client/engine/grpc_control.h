// The control plane over gRPC.
#pragma once

#include <memory>
#include <string>

#include "client/engine/control_plane.h"
#include "proto/base/channel_security.h"

namespace tidepool::internal {

// A channel lives for one call. A client calls rarely. Idle connections of thousands of clients
// would cost the daemons more than the 0.5 ms of a connect.
std::unique_ptr<ControlPlane> MakeGrpcControl(std::string token, ChannelSecurity security);

}  // namespace tidepool::internal
