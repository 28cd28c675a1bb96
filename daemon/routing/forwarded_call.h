// A call that a node passes on to the coordinator. Who gets it and is not the coordinator passes it
// on to nobody: two nodes that take each other for it would do so for ever.
//
//   services/namespaces_service, admin_service -> [routing/forwarded_call] -> the same of another
//   node
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
