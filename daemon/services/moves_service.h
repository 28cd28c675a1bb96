// The Moves service, by which daemons hand partitions to each other.
//
//   gRPC -> [services/moves_service] -> moving/send_partition, moving/receive_partition,
//   coordinator
#pragma once

#include <memory>

#include "daemon/control/node_state.h"
#include "daemon/services/auth.h"
#include "tidepool/v1/moves.grpc.pb.h"

namespace tidepool::daemon {

// Thread-safe; `node` must outlive it.
class MovesService final : public v1::Moves::Service {
 public:
  explicit MovesService(NodeState* node) : node_(*node) {}

  grpc::Status Move(grpc::ServerContext* call, const v1::MovePartitionRequest* request,
                    grpc::ServerWriter<v1::MovePartitionProgress>* writer) override;
  grpc::Status Receive(
      grpc::ServerContext* call,
      grpc::ServerReaderWriter<v1::ReceiveAnswer, v1::PartitionPiece>* stream) override;
  grpc::Status Grant(grpc::ServerContext* call, const v1::GrantPartitionRequest* request,
                     v1::GrantPartitionResponse* response) override;
  grpc::Status Change(grpc::ServerContext* call, const v1::ChangePartitionRequest* request,
                      v1::ChangePartitionResponse* response) override;
  grpc::Status OpenCopy(grpc::ServerContext* call, const v1::OpenCopyRequest* request,
                        v1::OpenCopyResponse* response) override;

 private:
  NodeState& node_;
};

// The gate before it, see gates.h. Both must outlive it.
std::unique_ptr<grpc::Service> MakeMovesGate(const Authenticator* authenticator,
                                             v1::Moves::Service* inner);

}  // namespace tidepool::daemon
