// Converts our Status to gRPC's and back, without loss. Fields that gRPC's codes cannot express
// travel as v1::StatusDetails in the binary details.
#pragma once

#include <grpcpp/support/status.h>

#include <string_view>

#include "proto/base/status.h"

namespace tidepool::convert {

grpc::Status ToGrpc(const Status& status);

// `peer` names the called daemon, for messages about failures of the connection itself.
Status FromGrpc(const grpc::Status& status, std::string_view peer);

}  // namespace tidepool::convert
