// The Bulk service: loading, scanning, and values too large for a message.
//
//   gRPC -> [services/bulk_service] -> request_router or local_values -> the owner's core
#pragma once

#include "daemon/routing/request_router.h"
#include "tidepool/v1/bulk.grpc.pb.h"

namespace tidepool::daemon {

// Thread-safe; `router` must outlive it. Streams have no default deadline; each step has a
// deadline.
class BulkService final : public v1::Bulk::Service {
 public:
  explicit BulkService(RequestRouter* router) : router_(*router) {}

  grpc::Status Load(grpc::ServerContext* call,
                    grpc::ServerReaderWriter<v1::LoadResponse, v1::LoadRequest>* stream) override;
  grpc::Status Scan(grpc::ServerContext* call, const v1::ScanRequest* request,
                    grpc::ServerWriter<v1::ScanResponse>* writer) override;
  grpc::Status ScanPartition(grpc::ServerContext* call, const v1::ScanPartitionRequest* request,
                             v1::ScanPartitionResponse* response) override;
  grpc::Status WriteValue(grpc::ServerContext* call,
                          grpc::ServerReader<v1::WriteValueRequest>* reader,
                          v1::WriteValueResponse* response) override;
  grpc::Status ReadValue(grpc::ServerContext* call, const v1::ReadValueRequest* request,
                         grpc::ServerWriter<v1::ReadValueResponse>* writer) override;

 private:
  Status ScanStep(const placement::Namespace& space, std::uint32_t partition,
                  const v1::ScanPartitionRequest& request, Deadline deadline,
                  v1::ScanPartitionResponse* response);
  Status ScanLocal(const placement::Namespace& space, std::uint32_t partition,
                   const v1::ScanPartitionRequest& request, Deadline deadline,
                   v1::ScanPartitionResponse* response);
  Status CheckCondition(const placement::Namespace& space, std::uint32_t partition,
                        const v1::WriteValueRequest::Start& start);
  Status WriteLocal(grpc::ServerContext* call, const placement::Namespace& space,
                    std::uint32_t partition, v1::WriteValueRequest message,
                    grpc::ServerReader<v1::WriteValueRequest>* reader,
                    v1::WriteValueResponse* response);
  Status WriteRemote(grpc::ServerContext* call, const placement::Node& node,
                     v1::WriteValueRequest message,
                     grpc::ServerReader<v1::WriteValueRequest>* reader,
                     v1::WriteValueResponse* response);
  Status ReadLocal(const placement::Namespace& space, std::uint32_t partition,
                   const v1::ReadValueRequest& request,
                   grpc::ServerWriter<v1::ReadValueResponse>* writer);
  Status ReadRemote(grpc::ServerContext* call, const placement::Node& node,
                    const v1::ReadValueRequest& request,
                    grpc::ServerWriter<v1::ReadValueResponse>* writer);

  RequestRouter& router_;
};

}  // namespace tidepool::daemon
