// The Data service: operations on records for programs without UCX.
//
//   gRPC -> [services/data_service] -> routing/request_router -> the owner's core
#pragma once

#include "daemon/routing/request_router.h"
#include "tidepool/v1/data.grpc.pb.h"

namespace tidepool::daemon {

// Thread-safe; `router` must outlive it. Calls without a deadline get the default deadline.
class DataService final : public v1::Data::Service {
 public:
  explicit DataService(RequestRouter* router) : router_(*router) {}

  grpc::Status Get(grpc::ServerContext* call, const v1::GetRequest* request,
                   v1::GetResponse* response) override;
  grpc::Status Put(grpc::ServerContext* call, const v1::PutRequest* request,
                   v1::PutResponse* response) override;
  grpc::Status Delete(grpc::ServerContext* call, const v1::DeleteRequest* request,
                      v1::DeleteResponse* response) override;
  grpc::Status Execute(grpc::ServerContext* call, const v1::ExecuteRequest* request,
                       v1::ExecuteResponse* response) override;
  grpc::Status Length(grpc::ServerContext* call, const v1::LengthRequest* request,
                      v1::LengthResponse* response) override;
  grpc::Status Locate(grpc::ServerContext* call, const v1::LocateRequest* request,
                      v1::LocateResponse* response) override;

 private:
  Status ExecuteAddressed(const v1::ExecuteRequest& request,
                          const std::vector<wire::Operation>& operations, Deadline deadline,
                          std::vector<OperationOutcome>* outcomes);

  RequestRouter& router_;
};

}  // namespace tidepool::daemon
