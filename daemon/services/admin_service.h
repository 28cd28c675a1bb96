// The Admin service: inspects and stops a daemon.
//
//   gRPC -> gates -> [services/admin_service] -> node_state.request_stop; Admin of other nodes
#pragma once

#include <string>
#include <vector>

#include "daemon/control/node_state.h"
#include "tidepool/v1/admin.grpc.pb.h"

namespace tidepool::daemon {

// Thread-safe; `node` must outlive it.
class AdminService final : public v1::Admin::Service {
 public:
  explicit AdminService(NodeState* node) : node_(*node) {}

  grpc::Status GetConfig(grpc::ServerContext* call, const v1::GetConfigRequest* request,
                         v1::GetConfigResponse* response) override;
  grpc::Status SetLogLevel(grpc::ServerContext* call, const v1::SetLogLevelRequest* request,
                           v1::SetLogLevelResponse* response) override;
  grpc::Status ResetStats(grpc::ServerContext* call, const v1::ResetStatsRequest* request,
                          v1::ResetStatsResponse* response) override;
  grpc::Status CheckStop(grpc::ServerContext* call, const v1::CheckStopRequest* request,
                         v1::CheckStopResponse* response) override;
  grpc::Status Stop(grpc::ServerContext* call, const v1::StopRequest* request,
                    v1::StopResponse* response) override;
  grpc::Status Ping(grpc::ServerContext* call, const v1::PingRequest* request,
                    v1::PingResponse* response) override;
  grpc::Status SlowLog(grpc::ServerContext* call, const v1::SlowLogRequest* request,
                       v1::SlowLogResponse* response) override;
  grpc::Status HotKeys(grpc::ServerContext* call, const v1::HotKeysRequest* request,
                       v1::HotKeysResponse* response) override;
  grpc::Status Machine(grpc::ServerContext* call, const v1::MachineRequest* request,
                       v1::MachineResponse* response) override;

  // Returns the losses of a stop of this node, or of the whole cluster. The node must have joined.
  v1::CheckStopResponse FindLosses(bool cluster, Deadline deadline);

 private:
  Status StopCluster(const grpc::ServerContext& call, const v1::StopRequest& request,
                     v1::StopResponse* response);
  void StopOthers(Deadline deadline, v1::StopResponse* response);
  // Waits until the given nodes have left, so that the last node can clean up after them.
  void WaitUntilLeft(const std::vector<NodeId>& nodes, Deadline deadline);

  NodeState& node_;
};

}  // namespace tidepool::daemon
