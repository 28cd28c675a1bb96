#include "daemon/services/staging_service.h"

#include <grpcpp/support/sync_stream.h>

#include <utility>

#include "daemon/services/gate.h"
#include "daemon/staging/part_list.h"
#include "daemon/staging/store_access.h"
#include "proto/convert/grpc_status.h"
#include "proto/manifest/keys.h"

namespace tidepool::daemon {
namespace {

// How often a watcher hears of a job that runs.
constexpr std::uint64_t kWatchIntervalMs = 200;
constexpr std::uint64_t kStagingMapMs = 2'000;

class StagingGate final : public v1::Staging::Service, private Gate {
 public:
  StagingGate(const Authenticator& authenticator, v1::Staging::Service* inner)
      : Gate(authenticator), inner_(*inner) {}

  grpc::Status Start(grpc::ServerContext* call, const v1::StartStageRequest* request,
                     v1::StartStageResponse* response) override {
    return Pass(call, [&] { return inner_.Start(call, request, response); });
  }
  grpc::Status Watch(grpc::ServerContext* call, const v1::WatchStageRequest* request,
                     grpc::ServerWriter<v1::StageProgress>* writer) override {
    return Pass(call, [&] { return inner_.Watch(call, request, writer); });
  }
  grpc::Status Cancel(grpc::ServerContext* call, const v1::CancelStageRequest* request,
                      v1::CancelStageResponse* response) override {
    return Pass(call, [&] { return inner_.Cancel(call, request, response); });
  }
  grpc::Status List(grpc::ServerContext* call, const v1::ListStagesRequest* request,
                    v1::ListStagesResponse* response) override {
    return Pass(call, [&] { return inner_.List(call, request, response); });
  }
  grpc::Status RunPart(
      grpc::ServerContext* call,
      grpc::ServerReaderWriter<v1::RunPartProgress, v1::RunPartRequest>* stream) override {
    return Pass(call, [&] { return inner_.RunPart(call, stream); });
  }
  grpc::Status ListPart(grpc::ServerContext* call, const v1::ListPartRequest* request,
                        grpc::ServerWriter<v1::ListPartResponse>* writer) override {
    return Pass(call, [&] { return inner_.ListPart(call, request, writer); });
  }
  grpc::Status MarkSaved(grpc::ServerContext* call, const v1::MarkSavedRequest* request,
                         v1::MarkSavedResponse* response) override {
    return Pass(call, [&] { return inner_.MarkSaved(call, request, response); });
  }
  grpc::Status Claim(grpc::ServerContext* call, const v1::ClaimStageRequest* request,
                     v1::ClaimStageResponse* response) override {
    return Pass(call, [&] { return inner_.Claim(call, request, response); });
  }
  grpc::Status SeesFile(grpc::ServerContext* call, const v1::SeesFileRequest* request,
                        v1::SeesFileResponse* response) override {
    return Pass(call, [&] { return inner_.SeesFile(call, request, response); });
  }

 private:
  v1::Staging::Service& inner_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeStagingGate(const Authenticator* authenticator,
                                               v1::Staging::Service* inner) {
  return std::make_unique<StagingGate>(*authenticator, inner);
}

Result<std::shared_ptr<const placement::Namespace>> StagingService::FindNamespace(
    const std::string& name) const {
  // Staging works on records and keeps its own records. Scans of other kinds would show them.
  const auto find = [&] {
    return router_.FindNamespaceFor(name, "staging of files", MaskOf(Kind::kHash));
  };
  auto found = find();
  if (found.code() == StatusCode::kNotFound) {
    router_.context().refresh_map(router_.context().map()->epoch, Deadline::AfterMs(kStagingMapMs));
    found = find();
  }
  return found;
}

grpc::Status StagingService::Start(grpc::ServerContext* /*call*/,
                                   const v1::StartStageRequest* request,
                                   v1::StartStageResponse* response) {
  if (const auto space = FindNamespace(request->namespace_()); !space.ok()) {
    return convert::ToGrpc(space.status());
  }
  auto started = jobs_.Start(*request);
  if (!started.ok()) return convert::ToGrpc(started.status());
  *response = *std::move(started);
  return grpc::Status::OK;
}

Result<std::shared_ptr<staging::Job>> StagingService::FindJob(const std::string& id) const {
  auto job = jobs_.Find(id);
  if (job != nullptr) return job;
  return Status(StatusCode::kNotFound, "this node knows no job '" + id.substr(0, 100) + "'",
                "ask the node that started it, or start it again: what is done stays done");
}

grpc::Status StagingService::Watch(grpc::ServerContext* call, const v1::WatchStageRequest* request,
                                   grpc::ServerWriter<v1::StageProgress>* writer) {
  const auto job = FindJob(request->job());
  if (!job.ok()) return convert::ToGrpc(job.status());
  for (bool done = false; !done;) {
    // A watcher that goes away does not stop the job.
    if (call->IsCancelled()) return grpc::Status(grpc::StatusCode::CANCELLED, "cancelled");
    done = (*job)->state().WaitDone(kWatchIntervalMs);
    if (!writer->Write((*job)->state().Snapshot())) break;
  }
  return grpc::Status::OK;
}

grpc::Status StagingService::Cancel(grpc::ServerContext* /*call*/,
                                    const v1::CancelStageRequest* request,
                                    v1::CancelStageResponse* /*response*/) {
  const auto job = FindJob(request->job());
  if (!job.ok()) return convert::ToGrpc(job.status());
  (*job)->state().Cancel();
  return grpc::Status::OK;
}

grpc::Status StagingService::List(grpc::ServerContext* /*call*/,
                                  const v1::ListStagesRequest* /*request*/,
                                  v1::ListStagesResponse* response) {
  for (const auto& job : jobs_.List()) {
    auto* entry = response->add_jobs();
    *entry->mutable_request() = job->request();
    *entry->mutable_progress() = job->state().Snapshot();
  }
  return grpc::Status::OK;
}

grpc::Status StagingService::RunPart(
    grpc::ServerContext* call,
    grpc::ServerReaderWriter<v1::RunPartProgress, v1::RunPartRequest>* stream) {
  v1::RunPartRequest request;
  if (!stream->Read(&request) || !request.has_start()) {
    return convert::ToGrpc(
        Status(StatusCode::kInvalidArgument, "the first request of RunPart must hold `start`"));
  }
  const auto space = FindNamespace(request.start().request().namespace_());
  if (!space.ok()) return convert::ToGrpc(space.status());
  // Written by the part's reporter alone; this thread only reads.
  auto part = stage::Part::Start(
      request.start(), std::make_unique<staging::StoreAccess>(&router_, *space),
      [stream](const v1::RunPartProgress& progress) { stream->Write(progress); });
  if (!part.ok()) return convert::ToGrpc(part.status());
  bool go_on = true;
  while (go_on && stream->Read(&request)) {
    for (v1::StageItem& item : *request.mutable_items()) {
      go_on = go_on && (*part)->Submit(std::move(item));
    }
  }
  // The end of the list, or of the caller.
  if (call->IsCancelled()) {
    (*part)->Cancel();
  } else {
    (*part)->Close();
  }
  return convert::ToGrpc((*part)->Wait());
}

grpc::Status StagingService::ListPart(grpc::ServerContext* /*call*/,
                                      const v1::ListPartRequest* request,
                                      grpc::ServerWriter<v1::ListPartResponse>* writer) {
  const auto space = FindNamespace(request->namespace_());
  if (!space.ok()) return convert::ToGrpc(space.status());
  return convert::ToGrpc(staging::ListPart(
      &router_, *space, *request,
      [writer](const v1::ListPartResponse& response) { return writer->Write(response); }));
}

grpc::Status StagingService::MarkSaved(grpc::ServerContext* /*call*/,
                                       const v1::MarkSavedRequest* request,
                                       v1::MarkSavedResponse* /*response*/) {
  saved_.MarkSaved(NamespaceId(request->namespace_id()), request->changes());
  return grpc::Status::OK;
}

grpc::Status StagingService::Claim(grpc::ServerContext* /*call*/,
                                   const v1::ClaimStageRequest* request,
                                   v1::ClaimStageResponse* response) {
  const auto space = FindNamespace(request->request().namespace_());
  if (!space.ok()) return convert::ToGrpc(space.status());
  const std::uint32_t mark = (*space)->IndexOf(AsBytes(manifest::MarkKey()));
  if (!request->mark_is_missing() && (*space)->partitions[mark].node != router_.context().self()) {
    return convert::ToGrpc(Status(StatusCode::kWrongEpoch,
                                  "this node does not own the namespace's mark", "ask its owner"));
  }
  *response = claims_.Take((*space)->id, *request);
  return grpc::Status::OK;
}

grpc::Status StagingService::SeesFile(grpc::ServerContext* /*call*/,
                                      const v1::SeesFileRequest* request,
                                      v1::SeesFileResponse* response) {
  response->set_seen(staging::SeesFile(*request));
  return grpc::Status::OK;
}

}  // namespace tidepool::daemon
