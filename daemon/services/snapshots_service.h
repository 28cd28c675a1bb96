// The Snapshots service: a node's part of taking and restoring images of a namespace.
//
//   kvctl snapshot => gRPC -> [services/snapshots_service] -> snapshot/write_images,
//   snapshot/load_images
#pragma once

#include <memory>

#include "daemon/routing/request_router.h"
#include "daemon/services/auth.h"
#include "tidepool/v1/snapshots.grpc.pb.h"

namespace tidepool::daemon {

// Thread-safe; the router must outlive it.
class SnapshotsService final : public v1::Snapshots::Service {
 public:
  explicit SnapshotsService(RequestRouter* router) : router_(*router) {}

  grpc::Status WriteImages(grpc::ServerContext* call, const v1::WriteImagesRequest* request,
                           grpc::ServerWriter<v1::ImagesProgress>* writer) override;
  grpc::Status LoadImages(grpc::ServerContext* call, const v1::LoadImagesRequest* request,
                          grpc::ServerWriter<v1::ImagesProgress>* writer) override;

 private:
  // Also finds a new namespace that this node's map does not have yet.
  Result<std::shared_ptr<const placement::Namespace>> FindNamespace(const std::string& name,
                                                                    std::uint32_t id) const;
  void Drop(const placement::Namespace& space) const;

  RequestRouter& router_;
};

// The gate before it, see gates.h. Both must outlive it.
std::unique_ptr<grpc::Service> MakeSnapshotsGate(const Authenticator* authenticator,
                                                 v1::Snapshots::Service* inner);

}  // namespace tidepool::daemon
