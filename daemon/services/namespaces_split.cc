// Splitting ranges of ordered namespaces: finds the owner, which does it.
#include "daemon/moving/range_splitter.h"
#include "daemon/routing/call_deadline.h"
#include "daemon/services/namespaces_service.h"
#include "daemon/services/node_status.h"
#include "proto/base/limits.h"
#include "proto/base/wrong_kind.h"
#include "proto/convert/grpc_status.h"

namespace tidepool::daemon {

using convert::ToGrpc;

// The partition that is to be split. Errors: kInvalidArgument, kUnavailable.
Result<std::uint32_t> NamespacesService::RangeToSplit(const placement::Namespace& space,
                                                      const v1::SplitNamespaceRequest& request,
                                                      Deadline deadline) {
  if (space.ranges == nullptr) {
    return WrongKind(space.name, space.kind, "a split", MaskOf(Kind::kOrdered));
  }
  if (request.has_key()) return space.IndexOf(AsBytes(request.key()));
  if (request.has_partition()) {
    if (request.partition() < space.partitions.size()) return request.partition();
    return Status(StatusCode::kInvalidArgument, "no such partition",
                  "see: kvctl namespace describe " + space.name);
  }
  std::uint32_t largest = 0;
  std::uint64_t records = 0;
  for (const auto& node : CollectNodeStatus(&node_, *node_.NewestMap(), space.id, deadline)) {
    if (!node.ok()) continue;
    for (const auto& partition : node->partitions()) {
      if (partition.records() <= records || partition.index() >= space.partitions.size()) continue;
      records = partition.records();
      largest = partition.index();
    }
  }
  return largest;
}

grpc::Status NamespacesService::Split(grpc::ServerContext* call,
                                      const v1::SplitNamespaceRequest* request,
                                      v1::SplitNamespaceResponse* response) {
  if (const Status joined = node_.CheckJoined(); !joined.ok()) return ToGrpc(joined);
  const Deadline deadline = DeadlineOf(*call);
  const auto space = node_.FindNamespace(request->name(), deadline);
  if (!space.ok()) return ToGrpc(space.status());
  const auto partition = RangeToSplit(**space, *request, deadline);
  if (!partition.ok()) return ToGrpc(partition.status());
  const placement::PartitionPlace& place = (*space)->partitions[*partition];
  if (place.node != node_.self()) {
    const placement::PlacementMapPtr map = node_.NewestMap();
    const placement::Node* owner = map->FindNode(place.node);
    if (owner == nullptr || owner->state != placement::NodeState::kUp) {
      return ToGrpc(Status(StatusCode::kUnavailable, "the range's node is not up"));
    }
    v1::SplitNamespaceRequest forwarded = *request;
    forwarded.set_partition(*partition);
    grpc::ClientContext context;
    node_.peers.Prepare(&context, deadline);
    const auto stub = v1::Namespaces::NewStub(node_.peers.Get(owner->control_address));
    const grpc::Status answered = stub->Split(&context, forwarded, response);
    if (!answered.ok()) return ToGrpc(convert::FromGrpc(answered, NodeText(*owner)));
    WaitUntilInstalled(Epoch(response->epoch()), deadline);
    return answered;
  }
  std::optional<std::string> key;
  if (request->has_key()) key = request->key();
  const auto outcome = node_.splitter->Split((*space)->id, *partition, std::move(key), deadline);
  if (!outcome.ok()) return ToGrpc(outcome.status());
  response->set_partition(outcome->partition);
  response->set_key(outcome->key);
  response->set_node_id(node_.self().value());
  response->set_core(outcome->core.value());
  response->set_epoch(outcome->epoch.value());
  WaitUntilInstalled(outcome->epoch, deadline);
  return grpc::Status::OK;
}

grpc::Status NamespacesService::CommitSplit(grpc::ServerContext* /*call*/,
                                            const v1::CommitSplitRequest* request,
                                            v1::CommitSplitResponse* response) {
  Coordinator* coordinator = node_.ActingCoordinator();
  if (coordinator == nullptr) {
    return ToGrpc(Status(StatusCode::kUnavailable, "this node is not the coordinator"));
  }
  if (request->node_id() >= limits::kNodesMax || request->new_core() >= limits::kCoresPerNodeMax ||
      request->term() > limits::kTermMax ||
      request->new_partition() >= limits::kPartitionsPerNamespaceMax) {
    return ToGrpc(Status(StatusCode::kInvalidArgument, "malformed CommitSplit request"));
  }
  const auto epoch = coordinator->SplitPartition(
      {NamespaceId(request->namespace_id()), request->partition(), Term(request->term()),
       NodeId(static_cast<std::uint16_t>(request->node_id())), request->key(),
       request->new_partition(), CoreId(static_cast<std::uint16_t>(request->new_core()))});
  if (!epoch.ok()) return ToGrpc(epoch.status());
  response->set_epoch(epoch->value());
  return grpc::Status::OK;
}

}  // namespace tidepool::daemon
