// The Cluster service: membership, the placement map, attaching to the data path, status.
//
//   gRPC -> gates -> [services/cluster_service] -> coordinator, map_holder, core_group
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "daemon/control/node_state.h"
#include "proto/base/limited_log.h"
#include "tidepool/v1/cluster.grpc.pb.h"

namespace tidepool::daemon {

// Thread-safe; `node` must outlive it. Not a generated service itself: the gate before it is.
class ClusterService {
 public:
  explicit ClusterService(NodeState* node) : node_(*node) {}

  // Only the coordinator admits nodes. Other nodes answer UNAVAILABLE, so that the caller looks for
  // the coordinator again.
  grpc::Status Join(grpc::ServerContext* call, const v1::JoinRequest* request,
                    v1::JoinResponse* response);
  grpc::Status Heartbeat(grpc::ServerContext* call, const v1::HeartbeatRequest* request,
                         v1::HeartbeatResponse* response);
  grpc::Status Leave(grpc::ServerContext* call, const v1::LeaveRequest* request,
                     v1::LeaveResponse* response);

  // Answers within four fifths of the caller's time, so that the caller gets the map and not a
  // deadline error.
  grpc::ServerUnaryReactor* GetMap(grpc::CallbackServerContext* call,
                                   const v1::GetMapRequest* request, v1::GetMapResponse* response);
  grpc::Status Status(grpc::ServerContext* call, const v1::StatusRequest* request,
                      v1::StatusResponse* response);
  // The only call without the job token; its credential is checked instead.
  grpc::Status Login(grpc::ServerContext* call, const v1::LoginRequest* request,
                     v1::LoginResponse* response);
  grpc::Status Attach(grpc::ServerContext* call, const v1::AttachRequest* request,
                      v1::AttachResponse* response);
  grpc::Status NodeStatus(grpc::ServerContext* call, const v1::NodeStatusRequest* request,
                          v1::NodeStatusResponse* response);

 private:
  NodeState& node_;
  log::Limited refused_;
};

}  // namespace tidepool::daemon
