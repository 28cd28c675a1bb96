// A call that a node forwards to the coordinator. A receiver that is not the coordinator does not
// forward it again. Otherwise two nodes that take each other for the coordinator would forward for
// ever.
//
//   services/namespaces_service, admin_service -> [routing/forwarded_call] -> the same service of
//   another node
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>

namespace tidepool::daemon {

inline constexpr const char* kForwardedCall = "tidepool-forwarded";

inline void MarkForwarded(grpc::ClientContext* call) { call->AddMetadata(kForwardedCall, "1"); }

inline bool IsForwarded(const grpc::ServerContext& call) {
  return call.client_metadata().count(kForwardedCall) > 0;
}

}  // namespace tidepool::daemon
