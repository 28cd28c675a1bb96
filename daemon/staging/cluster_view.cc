#include "daemon/staging/cluster_view.h"

#include <fcntl.h>
#include <grpcpp/client_context.h>
#include <sys/stat.h>

#include <chrono>
#include <set>
#include <utility>

#include "daemon/routing/operation_convert.h"
#include "daemon/staging/part_list.h"
#include "daemon/staging/remote_part.h"
#include "daemon/staging/store_access.h"
#include "proto/base/limits.h"
#include "proto/convert/grpc_status.h"
#include "proto/file_tree/beneath.h"
#include "proto/file_tree/directory_identity.h"
#include "proto/manifest/keys.h"
#include "tidepool/v1/staging.grpc.pb.h"

namespace tidepool::daemon::staging {
namespace {

constexpr std::uint64_t kQuestionTimeoutMs = 5'000;
// A list comes in messages; each must come within this.
constexpr std::uint64_t kListTimeoutMs = 600'000;

void Prepare(const RequestRouter& router, std::uint64_t timeout_ms, grpc::ClientContext* call) {
  call->set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms));
  router.context().authorize(*call);
}

std::int64_t MtimeNs(const struct stat& info) { return FileTime::Of(info.st_mtim).WrappedNs(); }

wire::Operation KeyOperation(wire::Opcode opcode, const std::string& key) {
  wire::Operation operation;
  operation.opcode = opcode;
  operation.key = AsBytes(key);
  return operation;
}

}  // namespace

bool SeesFile(const v1::SeesFileRequest& request) {
  const UniqueFd root(open(request.directory().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat info;
  if (!root.is_open()) return false;
  if (request.name().empty()) {
    if (fstat(root.get(), &info) != 0 || info.st_ino != request.inode()) return false;
    // The time of change differs as soon as a file comes or goes in the directory.
    return MtimeNs(info) == request.mtime_ns() ||
           file_tree::IsSameIdentity(file_tree::DirectoryIdentity(root.get()), request.identity());
  }
  return request.name().find('/') == std::string::npos &&
         fstatat(root.get(), request.name().c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
}

NodeId ClusterView::OwnerOf(std::string_view key) const {
  return space_->partitions[space_->IndexOf(AsBytes(key))].node;
}

stage::Survey ClusterView::SurveyOf(const placement::Namespace& space) const {
  const placement::PlacementMapPtr map = router_.context().map();
  return {space,
          [&](const placement::PartitionPlace& place) { return router_.CheckPlace(space, place); },
          [&](NodeId id) { return map->FindNode(id); }};
}

stage::Survey ClusterView::TakeSurvey() const { return SurveyOf(*space_); }

std::uint32_t ClusterView::PartitionOf(std::string_view key) const {
  return space_->IndexOf(AsBytes(key));
}

Result<std::vector<std::string>> ClusterView::BlindNodes(
    const v1::StartStageRequest& request) const {
  v1::SeesFileRequest question;
  question.set_directory(request.directory());
  question.set_name(request.probe_file());
  if (request.probe_file().empty() && request.has_inode()) {
    question.set_inode(request.inode());
    question.set_mtime_ns(request.mtime_ns());
    question.set_identity(request.identity());
  } else if (request.probe_file().empty()) {
    const UniqueFd root(open(request.directory().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct stat info;
    if (!root.is_open() || fstat(root.get(), &info) != 0) {
      return file_tree::StatusOfErrno(errno, "cannot look at", request.directory());
    }
    question.set_inode(info.st_ino);
    question.set_mtime_ns(MtimeNs(info));
    question.set_identity(file_tree::DirectoryIdentity(root.get()));
  }
  // A stage-out goes on without the nodes that are gone.
  const bool needs_all = request.direction() != v1::StartStageRequest::DIRECTION_OUT;
  const stage::Survey survey = TakeSurvey();
  if (survey.owners().empty() || (needs_all && !survey.complete())) return survey.first_reason();
  std::vector<std::string> blind;
  bool asked_self = false;
  for (const placement::Node& node : survey.owners()) {
    v1::SeesFileResponse answer;
    if (node.id == router_.context().self()) {
      answer.set_seen(SeesFile(question));
      asked_self = true;
    } else {
      grpc::ClientContext call;
      Prepare(router_, kQuestionTimeoutMs, &call);
      const auto stub = v1::Staging::NewStub(router_.context().channel(node));
      const Status asked =
          convert::FromGrpc(stub->SeesFile(&call, question, &answer), stage::Describe(node));
      if (!asked.ok() && !needs_all && stage::IsOfNode(asked.code())) continue;
      TP_RETURN_IF_ERROR(asked);
    }
    if (!answer.seen()) blind.push_back(stage::Describe(node));
  }
  // The node that coordinates walks the directory and makes the subdirectories.
  if (!asked_self && !SeesFile(question)) {
    blind.push_back("node " + std::to_string(router_.context().self().value()));
  }
  return blind;
}

Result<std::unique_ptr<stage::PartLink>> ClusterView::OpenPart(const placement::Node& mover,
                                                               const v1::RunPartStart& start,
                                                               stage::PartLink::Report report,
                                                               std::function<void()> ended) const {
  if (mover.id != router_.context().self()) {
    return OpenRemotePart(router_, mover, start, std::move(report), std::move(ended));
  }
  return stage::OpenLocalPart(start, std::make_unique<StoreAccess>(&router_, space_),
                              std::move(report));
}

Result<std::vector<stage::NodeTotals>> ClusterView::ListParts(
    const std::vector<placement::Node>& owners, v1::ListPartRequest::What what, stage::Loss loss,
    const TakeItem& take) const {
  v1::ListPartRequest request;
  request.set_namespace_(space_->name);
  request.set_what(what);
  request.set_skip_lost(loss == stage::Loss::kSkip);
  std::vector<stage::NodeTotals> all;
  for (const placement::Node& node : owners) {
    stage::NodeTotals totals;
    totals.node = node.id;
    bool done = false;
    const auto consume = [&](const v1::ListPartResponse& response) {
      for (const v1::StageItem& item : response.items()) {
        if (!take(item)) return false;
      }
      if (response.done()) {
        auto mark = manifest::DecodeMark(AsBytes(response.summary()));
        done = mark.ok();
        if (mark.ok()) totals.summary = mark->summary;
        totals.changes = response.changes();
        totals.all_staged = response.all_staged();
        totals.unreadable = response.unreadable();
      }
      return true;
    };
    const bool here = node.id == router_.context().self();
    TP_RETURN_IF_ERROR(here ? ListPart(&router_, space_, request, consume)
                            : ListRemote(node, request, consume));
    if (!done) {
      return Status(StatusCode::kInternal, stage::Describe(node) + " gave no complete list");
    }
    all.push_back(totals);
  }
  return all;
}

Status ClusterView::ListRemote(const placement::Node& node, const v1::ListPartRequest& request,
                               const std::function<bool(const v1::ListPartResponse&)>& take) const {
  const auto stub = v1::Staging::NewStub(router_.context().channel(node));
  // A node that does not answer a short question is not waited for.
  grpc::ClientContext question_call;
  Prepare(router_, kQuestionTimeoutMs, &question_call);
  v1::SeesFileRequest question;
  question.set_directory("/");
  v1::SeesFileResponse answer;
  TP_RETURN_IF_ERROR(
      convert::FromGrpc(stub->SeesFile(&question_call, question, &answer), stage::Describe(node)));
  grpc::ClientContext call;
  Prepare(router_, kListTimeoutMs, &call);
  const auto stream = stub->ListPart(&call, request);
  v1::ListPartResponse response;
  bool go_on = true;
  while (go_on && stream->Read(&response)) go_on = take(response);
  if (!go_on) call.TryCancel();
  const grpc::Status ended = stream->Finish();
  if (!go_on) return Status(StatusCode::kCancelled, "the job was cancelled");
  return convert::FromGrpc(ended, stage::Describe(node));
}

Result<v1::ClaimStageResponse> ClusterView::Claim(const v1::ClaimStageRequest& request,
                                                  Deadline deadline) const {
  const Epoch known = router_.context().map()->epoch;
  auto answer = ClaimOnce(request, deadline);
  if (answer.code() != StatusCode::kWrongEpoch) return answer;
  router_.context().refresh_map(known, deadline);
  return ClaimOnce(request, deadline);
}

Result<v1::ClaimStageResponse> ClusterView::ClaimOnce(const v1::ClaimStageRequest& request,
                                                      Deadline deadline) const {
  auto found = router_.FindNamespace(space_->name);
  if (!found.ok()) return found.status();
  const auto send = [&](const placement::Node& keeper, const v1::ClaimStageRequest& claim,
                        Deadline by) -> Result<v1::ClaimStageResponse> {
    grpc::ClientContext call;
    Prepare(router_, by.LeftMs(), &call);
    v1::ClaimStageResponse response;
    // Also calls this node by gRPC, because the call is very rare.
    const auto stub = v1::Staging::NewStub(router_.context().channel(keeper));
    TP_RETURN_IF_ERROR(
        convert::FromGrpc(stub->Claim(&call, claim, &response), stage::Describe(keeper)));
    return response;
  };
  return stage::AskClaimKeeper(**found, SurveyOf(**found), request, deadline, send);
}

Status ClusterView::MarkSaved(const placement::Node& node, std::uint64_t changes) const {
  if (node.id == router_.context().self()) {
    saved_->MarkSaved(space_->id, changes);
    return OkStatus();
  }
  grpc::ClientContext call;
  Prepare(router_, kQuestionTimeoutMs, &call);
  v1::MarkSavedRequest request;
  request.set_namespace_id(space_->id.value());
  request.set_changes(changes);
  v1::MarkSavedResponse response;
  const auto stub = v1::Staging::NewStub(router_.context().channel(node));
  return convert::FromGrpc(stub->MarkSaved(&call, request, &response), stage::Describe(node));
}

Status ClusterView::Put(const std::string& key, const std::string& value) const {
  wire::Operation put = KeyOperation(wire::Opcode::kPut, key);
  put.value = AsBytes(value);
  put.set(wire::Argument::kTtlMs, 0);  // For ever, whatever the namespace's default.
  const OperationOutcome outcome =
      router_.ExecuteOne(space_->name, put, 0, Deadline::AfterMs(limits::kCallTimeoutMs));
  return StatusOf(outcome, space_->name, key);
}

Status ClusterView::Delete(const std::string& key) const {
  const OperationOutcome outcome =
      router_.ExecuteOne(space_->name, KeyOperation(wire::Opcode::kDelete, key), 0,
                         Deadline::AfterMs(limits::kCallTimeoutMs));
  if (outcome.code == StatusCode::kNotFound) return OkStatus();
  return StatusOf(outcome, space_->name, key);
}

Result<manifest::Mark> ClusterView::GetMark(bool* exists) const {
  const std::string key = manifest::MarkKey();
  const OperationOutcome outcome =
      router_.ExecuteOne(space_->name, KeyOperation(wire::Opcode::kGet, key), stage::kPieceBytes,
                         Deadline::AfterMs(limits::kCallTimeoutMs));
  *exists = outcome.code == StatusCode::kOk;
  if (outcome.code == StatusCode::kNotFound) return manifest::Mark();
  TP_RETURN_IF_ERROR(StatusOf(outcome, space_->name, key));
  return manifest::DecodeMark(AsBytes(outcome.value));
}

Result<std::uint64_t> InternalRecords(RequestRouter* router,
                                      std::shared_ptr<const placement::Namespace> space,
                                      bool may_walk) {
  if (space->kind != Kind::kHash) return std::uint64_t{0};
  const ClusterView view(router, nullptr, std::move(space));
  bool exists = false;
  const auto mark = view.GetMark(&exists);
  if (!mark.ok()) return mark.status();
  if (!exists) return std::uint64_t{0};
  if (mark->exact) return mark->summary.internal_records();
  if (!may_walk) return Status(StatusCode::kUnavailable, "a staging job is under way");
  const auto owners = view.Owners();
  if (!owners.ok()) return owners.status();
  const auto totals = view.List(*owners, v1::ListPartRequest::WHAT_TOTALS,
                                [](const v1::StageItem&) { return true; });
  if (!totals.ok()) return totals.status();
  manifest::Summary summary;
  for (const stage::NodeTotals& node : *totals) summary.Add(node.summary);
  return summary.internal_records();
}

}  // namespace tidepool::daemon::staging
