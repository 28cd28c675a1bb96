#include "daemon/services/moves_service.h"

#include <utility>

#include "daemon/moving/receive_partition.h"
#include "daemon/moving/send_partition.h"
#include "daemon/services/gate.h"
#include "proto/convert/grpc_status.h"

namespace tidepool::daemon {
namespace {

using convert::ToGrpc;

class MovesGate final : public v1::Moves::Service, private Gate {
 public:
  MovesGate(const Authenticator& authenticator, v1::Moves::Service* inner)
      : Gate(authenticator), inner_(*inner) {}

  grpc::Status Move(grpc::ServerContext* call, const v1::MovePartitionRequest* request,
                    grpc::ServerWriter<v1::MovePartitionProgress>* writer) override {
    return Pass(call, [&] { return inner_.Move(call, request, writer); });
  }
  grpc::Status Receive(
      grpc::ServerContext* call,
      grpc::ServerReaderWriter<v1::ReceiveAnswer, v1::PartitionPiece>* stream) override {
    return Pass(call, [&] { return inner_.Receive(call, stream); });
  }
  grpc::Status Grant(grpc::ServerContext* call, const v1::GrantPartitionRequest* request,
                     v1::GrantPartitionResponse* response) override {
    return Pass(call, [&] { return inner_.Grant(call, request, response); });
  }

 private:
  v1::Moves::Service& inner_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeMovesGate(const Authenticator* authenticator,
                                             v1::Moves::Service* inner) {
  return std::make_unique<MovesGate>(*authenticator, inner);
}

grpc::Status MovesService::Move(grpc::ServerContext* /*call*/,
                                const v1::MovePartitionRequest* request,
                                grpc::ServerWriter<v1::MovePartitionProgress>* writer) {
  if (const Status joined = node_.CheckJoined(); !joined.ok()) return ToGrpc(joined);
  v1::MovePartitionProgress last;
  // A caller that goes away does not end what has begun.
  const auto moved =
      SendPartition(&node_, *request, [&](const v1::MovePartitionProgress& progress) {
        last = progress;
        writer->Write(progress);
      });
  if (!moved.ok()) return ToGrpc(moved.status());
  last.set_epoch(moved->value());
  writer->Write(last);
  return grpc::Status::OK;
}

grpc::Status MovesService::Receive(
    grpc::ServerContext* /*call*/,
    grpc::ServerReaderWriter<v1::ReceiveAnswer, v1::PartitionPiece>* stream) {
  return ToGrpc(ReceivePartition(&node_, stream));
}

grpc::Status MovesService::Grant(grpc::ServerContext* /*call*/,
                                 const v1::GrantPartitionRequest* request,
                                 v1::GrantPartitionResponse* response) {
  Coordinator* coordinator = node_.coordinator.load();
  if (coordinator == nullptr) {
    return ToGrpc(Status(StatusCode::kUnavailable, "this node is not the coordinator, or not yet"));
  }
  auto answer = coordinator->GrantPartition(*request);
  if (!answer.ok()) return ToGrpc(answer.status());
  *response = *std::move(answer);
  return grpc::Status::OK;
}

}  // namespace tidepool::daemon
