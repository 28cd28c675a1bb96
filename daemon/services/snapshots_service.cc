#include "daemon/services/snapshots_service.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include "daemon/routing/call_deadline.h"
#include "daemon/services/gate.h"
#include "daemon/snapshot/load_images.h"
#include "daemon/snapshot/partition_source.h"
#include "daemon/snapshot/write_images.h"
#include "proto/base/log.h"
#include "proto/convert/grpc_status.h"
#include "tidepool/v1/namespaces.grpc.pb.h"

namespace tidepool::daemon {
namespace {

constexpr std::uint64_t kSnapshotMapMs = 5'000;

class SnapshotsGate final : public v1::Snapshots::Service, private Gate {
 public:
  SnapshotsGate(const Authenticator& authenticator, v1::Snapshots::Service* inner)
      : Gate(authenticator), inner_(*inner) {}

  grpc::Status WriteImages(grpc::ServerContext* call, const v1::WriteImagesRequest* request,
                           grpc::ServerWriter<v1::ImagesProgress>* writer) override {
    return Pass(call, [&] { return inner_.WriteImages(call, request, writer); });
  }
  grpc::Status LoadImages(grpc::ServerContext* call, const v1::LoadImagesRequest* request,
                          grpc::ServerWriter<v1::ImagesProgress>* writer) override {
    return Pass(call, [&] { return inner_.LoadImages(call, request, writer); });
  }

 private:
  v1::Snapshots::Service& inner_;
};

snapshot::Report ReportTo(grpc::ServerContext* call,
                          grpc::ServerWriter<v1::ImagesProgress>* writer) {
  return [call, writer](const v1::ImagesProgress& progress) {
    return !call->IsCancelled() && writer->Write(progress);
  };
}

}  // namespace

std::unique_ptr<grpc::Service> MakeSnapshotsGate(const Authenticator* authenticator,
                                                 v1::Snapshots::Service* inner) {
  return std::make_unique<SnapshotsGate>(*authenticator, inner);
}

Result<std::shared_ptr<const placement::Namespace>> SnapshotsService::FindNamespace(
    const std::string& name, std::uint32_t id) const {
  const auto find = [&] {
    return router_.FindNamespaceFor(name, "snapshots", snapshot::kSnapshotKinds);
  };
  auto found = find();
  if (!found.ok() || (*found)->id != NamespaceId(id)) {
    router_.context().refresh_map(router_.context().map()->epoch,
                                  Deadline::AfterMs(kSnapshotMapMs));
    found = find();
  }
  if (found.ok() && (*found)->id != NamespaceId(id)) {
    return Status(StatusCode::kNotFound, "the namespace was dropped meanwhile");
  }
  return found;
}

grpc::Status SnapshotsService::WriteImages(grpc::ServerContext* call,
                                           const v1::WriteImagesRequest* request,
                                           grpc::ServerWriter<v1::ImagesProgress>* writer) {
  const auto space = FindNamespace(request->namespace_(), request->namespace_id());
  if (!space.ok()) return convert::ToGrpc(space.status());
  return convert::ToGrpc(snapshot::WriteImages(router_, **space, *request, ReportTo(call, writer)));
}

grpc::Status SnapshotsService::LoadImages(grpc::ServerContext* call,
                                          const v1::LoadImagesRequest* request,
                                          grpc::ServerWriter<v1::ImagesProgress>* writer) {
  const auto space = FindNamespace(request->namespace_(), request->namespace_id());
  if (!space.ok()) return convert::ToGrpc(space.status());
  const Status status = snapshot::LoadImages(&router_, **space, *request, ReportTo(call, writer));
  // The caller is gone, or is ending the other parts too. Otherwise the caller drops the namespace
  // when it knows the results of all parts.
  if (!status.ok() && call->IsCancelled()) Drop(**space);
  return convert::ToGrpc(status);
}

// Drops the namespace, so that no client takes a part for the whole.
void SnapshotsService::Drop(const placement::Namespace& space) const {
  const placement::PlacementMapPtr map = router_.context().map();
  const placement::Node* self = map->FindNode(router_.context().self());
  if (self == nullptr || map->Find(space.id) == nullptr) return;
  grpc::ClientContext call;
  call.set_deadline(std::chrono::system_clock::now() +
                    std::chrono::nanoseconds(StepDeadline().LeftNs()));
  router_.context().authorize(call);
  v1::DropNamespaceRequest request;
  request.set_name(space.name);
  v1::DropNamespaceResponse response;
  const Status dropped = convert::FromGrpc(
      v1::Namespaces::NewStub(router_.context().channel(*self))->Drop(&call, request, &response),
      "this node");
  if (dropped.ok() || dropped.code() == StatusCode::kNotFound) return;
  log::Warn("namespace '" + space.name +
            "', of which not all was restored, cannot be dropped: " + dropped.ToString());
}

}  // namespace tidepool::daemon
