// The Staging service: jobs of callers, and parts of jobs of other nodes.
//
//   gRPC -> [services/staging_service] -> staging/jobs, stage/part, staging/part_list
#pragma once

#include <memory>

#include "daemon/services/auth.h"
#include "daemon/staging/claims.h"
#include "daemon/staging/jobs.h"
#include "tidepool/v1/staging.grpc.pb.h"

namespace tidepool::daemon {

// Thread-safe; router and registry must outlive it.
class StagingService final : public v1::Staging::Service {
 public:
  StagingService(RequestRouter* router, SavedRegistry* saved)
      : router_(*router), saved_(*saved), jobs_(router, saved) {}

  // Cancels all jobs and accepts no more; call before the cores stop.
  void Stop() { jobs_.Stop(); }

  grpc::Status Start(grpc::ServerContext* call, const v1::StartStageRequest* request,
                     v1::StartStageResponse* response) override;
  grpc::Status Watch(grpc::ServerContext* call, const v1::WatchStageRequest* request,
                     grpc::ServerWriter<v1::StageProgress>* writer) override;
  grpc::Status Cancel(grpc::ServerContext* call, const v1::CancelStageRequest* request,
                      v1::CancelStageResponse* response) override;
  grpc::Status List(grpc::ServerContext* call, const v1::ListStagesRequest* request,
                    v1::ListStagesResponse* response) override;
  grpc::Status RunPart(
      grpc::ServerContext* call,
      grpc::ServerReaderWriter<v1::RunPartProgress, v1::RunPartRequest>* stream) override;
  grpc::Status ListPart(grpc::ServerContext* call, const v1::ListPartRequest* request,
                        grpc::ServerWriter<v1::ListPartResponse>* writer) override;
  grpc::Status MarkSaved(grpc::ServerContext* call, const v1::MarkSavedRequest* request,
                         v1::MarkSavedResponse* response) override;
  grpc::Status Claim(grpc::ServerContext* call, const v1::ClaimStageRequest* request,
                     v1::ClaimStageResponse* response) override;
  grpc::Status SeesFile(grpc::ServerContext* call, const v1::SeesFileRequest* request,
                        v1::SeesFileResponse* response) override;

 private:
  // Also finds a new namespace that this node's map does not have yet.
  Result<std::shared_ptr<const placement::Namespace>> FindNamespace(const std::string& name) const;
  Result<std::shared_ptr<staging::Job>> FindJob(const std::string& id) const;

  RequestRouter& router_;
  SavedRegistry& saved_;
  staging::Claims claims_{Clock::Real()};
  staging::Jobs jobs_;
};

// The gate before it, see gates.h. Both must outlive it.
std::unique_ptr<grpc::Service> MakeStagingGate(const Authenticator* authenticator,
                                               v1::Staging::Service* inner);

}  // namespace tidepool::daemon
