// Namespaces.Persist: all owners of a durable namespace make a mark.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/control/persist.h"
#include "daemon/routing/call_deadline.h"
#include "daemon/services/namespaces_service.h"
#include "proto/base/thread.h"
#include "proto/convert/grpc_status.h"

namespace tidepool::daemon {
namespace {

using convert::ToGrpc;

// The answer comes before the caller's own deadline, and names the slow node.
constexpr std::uint64_t kAnswerMs = 100;

Deadline Before(Deadline deadline) {
  const std::uint64_t left_ms = deadline.LeftMs();
  return Deadline::AfterMs(left_ms - std::min(left_ms / 2, kAnswerMs));
}

}  // namespace

Result<std::uint64_t> NamespacesService::PersistAt(const placement::Node& node,
                                                   const std::string& name, Deadline deadline) {
  if (node.id == node_.self()) return PersistNode(node_.cores, deadline);
  if (node.state != placement::NodeState::kUp) {
    return Status(StatusCode::kUnavailable,
                  NodeText(node) + " is " + std::string(placement::NodeStateName(node.state)),
                  "start it again: what it held is as it was at its last checkpoint");
  }
  grpc::ClientContext context;
  node_.peers.Prepare(&context, deadline);
  v1::PersistRequest request;
  request.set_name(name);
  request.set_this_node_only(true);
  v1::PersistResponse response;
  const auto stub = v1::Namespaces::NewStub(node_.peers.Get(node.control_address));
  TP_RETURN_IF_ERROR(
      convert::FromGrpc(stub->Persist(&context, request, &response), NodeText(node)));
  return response.durable_at_ms();
}

grpc::Status NamespacesService::Persist(grpc::ServerContext* call,
                                        const v1::PersistRequest* request,
                                        v1::PersistResponse* response) {
  const Deadline deadline = Before(DeadlineOf(*call));
  if (request->this_node_only()) {
    if (const Status joined = node_.CheckJoined(); !joined.ok()) return ToGrpc(joined);
    if (node_.volume == nullptr) {
      return ToGrpc(Status(StatusCode::kFailedPrecondition, "this node has no device"));
    }
    const auto durable_at_ms = PersistNode(node_.cores, deadline);
    if (!durable_at_ms.ok()) return ToGrpc(durable_at_ms.status());
    response->set_durable_at_ms(*durable_at_ms);
    response->set_nodes(1);
    return grpc::Status::OK;
  }
  const auto space = node_.FindNamespace(request->name(), deadline);
  if (!space.ok()) return ToGrpc(space.status());
  if (!(*space)->options.durable()) {
    return ToGrpc(Status(StatusCode::kFailedPrecondition,
                         "'" + request->name() + "' is volatile: it ends with the daemons",
                         "stage it out, or make it with --durability async"));
  }
  std::set<NodeId> owners;
  for (const placement::PartitionPlace& place : (*space)->partitions) owners.insert(place.node);
  const placement::PlacementMapPtr map = node_.NewestMap();
  std::vector<Result<std::uint64_t>> outcomes(owners.size(),
                                              Status(StatusCode::kUnavailable, "it was not asked"));
  const std::vector<NodeId> asked(owners.begin(), owners.end());
  ForEachAtOnce(asked.size(), [&](std::size_t i) {
    outcomes[i] = PersistAt(map->nodes[asked[i].value()], request->name(), deadline);
  });
  std::uint64_t oldest_ms = UINT64_MAX;
  for (const auto& outcome : outcomes) {
    if (!outcome.ok()) return ToGrpc(outcome.status());
    oldest_ms = std::min(oldest_ms, *outcome);
  }
  response->set_durable_at_ms(oldest_ms);
  response->set_nodes(static_cast<std::uint32_t>(outcomes.size()));
  return grpc::Status::OK;
}

}  // namespace tidepool::daemon
