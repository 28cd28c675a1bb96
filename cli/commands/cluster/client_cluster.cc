#include "cli/commands/cluster/client_cluster.h"

#include <set>
#include <utility>

#include "cli/commands/data/record_call.h"
#include "cli/text.h"
#include "proto/convert/placement_convert.h"
#include "proto/manifest/keys.h"
#include "tidepool/v1/cluster.grpc.pb.h"
#include "tidepool/v1/staging.grpc.pb.h"

namespace tidepool::cli {
namespace {

// kvctl as a mover; not a node of any cluster.
constexpr NodeId kThisProcess{0xffff};

auto GetMap(Channel* channel, Deadline deadline) {
  v1::GetMapResponse response;
  const Status status = channel->CallBy<v1::Cluster>(&v1::Cluster::Stub::GetMap,
                                                     v1::GetMapRequest(), &response, deadline);
  return status.ok() ? convert::FromProto(response.map()) : status;
}

}  // namespace

Result<std::unique_ptr<ClientCluster>> ClientCluster::Make(Channel* channel,
                                                           const std::string& space) {
  auto delta = GetMap(channel, Deadline::AfterMs(channel->stall_ms()));
  if (!delta.ok()) return delta.status();
  std::unique_ptr<ClientCluster> cluster(new ClientCluster());
  cluster->channel_ = channel;
  cluster->space_ = delta->changes.Find(std::string_view(space));
  cluster->nodes_ = std::move(delta->changes.nodes);
  if (cluster->space_ == nullptr) {
    return Status(StatusCode::kNotFound, "no namespace " + Quote(space),
                  "create it with: kvctl namespace create " + space);
  }
  if (cluster->space_->kind != placement::Kind::kHash) {
    return Status(StatusCode::kInvalidArgument, Quote(space) + " is no hash namespace",
                  "files are staged into and out of hash namespaces");
  }
  cluster->counts_ = std::make_unique<ChangeCounts>(cluster->nodes_.size());
  return cluster;
}

NodeId ClientCluster::OwnerOf(std::string_view key) const { return cli::OwnerOf(*space_, key); }

std::uint32_t ClientCluster::PartitionOf(std::string_view key) const {
  return space_->IndexOf(AsBytes(key));
}

stage::Survey ClientCluster::SurveyOf(const placement::Namespace& space,
                                      const std::vector<placement::Node>& nodes) {
  const auto find = [&](NodeId id) {
    return id.value() < nodes.size() ? &nodes[id.value()] : nullptr;
  };
  const auto check = [&](const placement::PartitionPlace& place) {
    if (place.state == placement::PartitionState::kLost) {
      return Status(StatusCode::kDataLoss,
                    "data of namespace " + Quote(space.name) + " was lost with its node",
                    "go on with what is left: kvctl namespace accept-loss " + space.name);
    }
    const placement::Node& node = *find(place.node);
    if (node.state == placement::NodeState::kUp) return OkStatus();
    return Status(StatusCode::kUnavailable,
                  stage::Describe(node) + ", which owns a part of " + Quote(space.name) + ", is " +
                      std::string(placement::NodeStateName(node.state)),
                  "restart it there, or see: kvctl status");
  };
  return {space, check, find};
}

std::vector<placement::Node> ClientCluster::Movers(
    const std::vector<placement::Node>& /*owners*/) const {
  placement::Node self;
  self.id = kThisProcess;
  return {self};
}

NodeId ClientCluster::MoverOf(std::string_view /*key*/) const { return kThisProcess; }

Result<std::unique_ptr<stage::PartLink>> ClientCluster::OpenPart(
    const placement::Node& /*mover*/, const v1::RunPartStart& start, stage::PartLink::Report report,
    std::function<void()> /*ended*/) const {
  return stage::OpenLocalPart(start, std::make_unique<ClientStore>(channel_, space_, counts_.get()),
                              std::move(report));
}

Status ClientCluster::ListNode(const placement::Node& node, const v1::ListPartRequest& request,
                               const TakeItem& take, stage::NodeTotals* totals) const {
  const auto peer = channel_->ConnectTo(node.control_address);
  if (!peer.ok()) return peer.status();
  grpc::ClientContext context;
  (*peer)->PrepareStream(&context);
  StallGuard guard(&context, (*peer)->stall_ms());
  const auto stub = v1::Staging::NewStub((*peer)->grpc_channel());
  const auto reader = stub->ListPart(&context, request);
  v1::ListPartResponse response;
  bool stopped = false;
  bool done = false;
  while (!stopped && reader->Read(&response)) {
    guard.Progress();
    for (const v1::StageItem& item : response.items()) stopped = stopped || !take(item);
    if (!response.done()) continue;
    auto mark = manifest::DecodeMark(AsBytes(response.summary()));
    done = mark.ok();
    if (mark.ok()) totals->summary = mark->summary;
    totals->changes = response.changes();
    totals->all_staged = response.all_staged();
    totals->unreadable = response.unreadable();
  }
  if (stopped) context.TryCancel();
  const Status end = (*peer)->StreamEnd(reader->Finish(), guard);
  if (stopped) return Status(StatusCode::kCancelled, "the job was cancelled");
  TP_RETURN_IF_ERROR(end);
  if (done) return OkStatus();
  return Status(StatusCode::kInternal, stage::Describe(node) + " gave no complete list");
}

Result<std::vector<stage::NodeTotals>> ClientCluster::ListParts(
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
    TP_RETURN_IF_ERROR(ListNode(node, request, take, &totals));
    all.push_back(totals);
  }
  return all;
}

Result<v1::ClaimStageResponse> ClientCluster::Claim(const v1::ClaimStageRequest& request,
                                                    Deadline deadline) const {
  const auto delta = GetMap(channel_, deadline);
  if (!delta.ok()) return delta.status();
  const auto space = delta->changes.Find(std::string_view(space_->name));
  if (space == nullptr) {
    return Status(StatusCode::kNotFound, "namespace " + Quote(space_->name) + " is gone");
  }
  const auto send = [&](const placement::Node& keeper, const v1::ClaimStageRequest& claim,
                        Deadline by) -> Result<v1::ClaimStageResponse> {
    const auto peer = channel_->ConnectTo(keeper.control_address, by);
    if (!peer.ok()) return peer.status();
    v1::ClaimStageResponse response;
    TP_RETURN_IF_ERROR(
        (*peer)->CallBy<v1::Staging>(&v1::Staging::Stub::Claim, claim, &response, by));
    return response;
  };
  return stage::AskClaimKeeper(*space, SurveyOf(*space, delta->changes.nodes), request, deadline,
                               send);
}

Status ClientCluster::MarkSaved(const placement::Node& node, std::uint64_t changes) const {
  const auto peer = channel_->ConnectTo(node.control_address);
  if (!peer.ok()) return peer.status();
  v1::MarkSavedRequest request;
  request.set_namespace_id(space_->id.value());
  request.set_changes(changes);
  v1::MarkSavedResponse response;
  return (*peer)->Call<v1::Staging>(&v1::Staging::Stub::MarkSaved, request, &response);
}

Status ClientCluster::Put(const std::string& key, const std::string& value) const {
  v1::Operation put;
  put.set_kind(v1::OPERATION_KIND_PUT);
  put.set_key(key);
  put.set_value(value);
  put.set_ttl_ms(0);  // For ever, whatever the namespace's default.
  return ExecuteOneOn(*channel_, space_->name, std::move(put)).status();
}

Status ClientCluster::Delete(const std::string& key) const {
  v1::Operation remove;
  remove.set_kind(v1::OPERATION_KIND_DELETE);
  remove.set_key(key);
  const auto result = ExecuteOneOn(*channel_, space_->name, std::move(remove));
  return result.code() == StatusCode::kNotFound ? OkStatus() : result.status();
}

Result<manifest::Mark> ClientCluster::GetMark(bool* exists) const {
  v1::Operation get;
  get.set_kind(v1::OPERATION_KIND_GET);
  get.set_key(manifest::MarkKey());
  const auto result = ExecuteOneOn(*channel_, space_->name, std::move(get));
  *exists = result.ok();
  if (result.code() == StatusCode::kNotFound) return manifest::Mark();
  if (!result.ok()) return result.status();
  return manifest::DecodeMark(AsBytes(result->value()));
}

}  // namespace tidepool::cli
