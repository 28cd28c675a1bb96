#include "daemon/services/cluster_service.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "daemon/membership/etcd_session.h"
#include "daemon/services/call_deadline.h"
#include "daemon/services/node_status.h"
#include "proto/cluster_file/munge.h"
#include "proto/convert/grpc_status.h"
#include "proto/convert/placement_convert.h"

namespace tidepool::daemon {
namespace {

using convert::ToGrpc;
// Inside the class, Status is the method.
using ErrorStatus = tidepool::Status;

// A name for people; longer ones and odd bytes have no use in a log.
std::string CleanName(const std::string& name) {
  std::string clean = name.substr(0, 200);
  std::replace_if(
      clean.begin(), clean.end(), [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return clean;
}

ErrorStatus NotCoordinator(const NodeState& node) {
  return ErrorStatus(
      StatusCode::kUnavailable,
      "node " + node.uuid + " on " + node.host + " is not the coordinator, or not yet",
      "the connection file and every node's map name it");
}

// Sums over the nodes, and the partitions' states from the map.
void AddNamespaces(const placement::PlacementMap& map,
                   const std::vector<Result<v1::NodeStatusResponse>>& nodes,
                   std::map<NamespaceId, NamespaceTotals> totals, v1::StatusResponse* response) {
  for (const auto& [id, space] : map.namespaces) {
    auto* entry = response->add_namespaces();
    entry->set_namespace_id(id.value());
    entry->set_name(space->name);
    entry->set_kind(static_cast<v1::Kind>(space->kind));
    entry->set_records(totals[id].records);
    entry->set_internal_records(totals[id].internal_records);
    entry->set_live_bytes(totals[id].live_bytes);
    entry->set_partitions(static_cast<std::uint32_t>(space->partitions.size()));
    entry->set_durability(space->options.durability);
    const auto count = [&space = *space](placement::PartitionState state) {
      return static_cast<std::uint32_t>(
          std::count_if(space.partitions.begin(), space.partitions.end(),
                        [state](const auto& place) { return place.state == state; }));
    };
    entry->set_partitions_down(count(placement::PartitionState::kDown));
    entry->set_partitions_lost(count(placement::PartitionState::kLost));
    entry->set_partitions_silent(static_cast<std::uint32_t>(
        std::count_if(space->partitions.begin(), space->partitions.end(), [&](const auto& place) {
          return place.state == placement::PartitionState::kActive &&
                 !nodes[place.node.value()].ok();
        })));
  }
}

// What keeps the cluster's state, and what is amiss with it.
void AddStore(const NodeState& node, const placement::PlacementMap& map,
              v1::StatusResponse* response) {
  response->set_store(node.session == nullptr ? "embedded" : node.session->Describe());
  const placement::Node* coordinator = node.CoordinatorNode(map);
  ErrorStatus found = node.session == nullptr ? OkStatus() : node.session->CheckReached();
  if (found.ok() && coordinator == nullptr) found = node.NoCoordinator();
  if (found.ok()) found = node.CheckAnswers(coordinator->id);
  if (!found.ok()) response->set_store_error(std::string(found.what()));
}

}  // namespace

grpc::Status ClusterService::Join(grpc::ServerContext*, const v1::JoinRequest* request,
                                  v1::JoinResponse* response) {
  Coordinator* coordinator = node_.ActingCoordinator();
  if (coordinator == nullptr) return ToGrpc(NotCoordinator(node_));
  auto joined = coordinator->Join(*request);
  if (!joined.ok()) return ToGrpc(joined.status());
  *response = *std::move(joined);
  return grpc::Status::OK;
}

grpc::Status ClusterService::Heartbeat(grpc::ServerContext*, const v1::HeartbeatRequest* request,
                                       v1::HeartbeatResponse* response) {
  Coordinator* coordinator = node_.ActingCoordinator();
  if (coordinator == nullptr) return ToGrpc(NotCoordinator(node_));
  auto answered = coordinator->Heartbeat(*request);
  if (!answered.ok()) return ToGrpc(answered.status());
  *response = *std::move(answered);
  return grpc::Status::OK;
}

grpc::Status ClusterService::Leave(grpc::ServerContext*, const v1::LeaveRequest* request,
                                   v1::LeaveResponse*) {
  Coordinator* coordinator = node_.ActingCoordinator();
  if (coordinator == nullptr) return ToGrpc(NotCoordinator(node_));
  return ToGrpc(coordinator->Leave(*request));
}

grpc::ServerUnaryReactor* ClusterService::GetMap(grpc::CallbackServerContext* call,
                                                 const v1::GetMapRequest* request,
                                                 v1::GetMapResponse* response) {
  grpc::ServerUnaryReactor* call_end = call->DefaultReactor();
  const Epoch known(request->known_epoch());
  const Epoch wanted(request->wait_for_epoch());
  const std::uint64_t left_ns = DeadlineOf(*call).LeftNs();
  const Deadline deadline(Clock::Real().MonotonicNs() + left_ns / 5 * 4);
  MapHolder& holder = node_.NewestHolder();
  // `response` lives until Finish.
  holder.OnEpoch(wanted, deadline, [&holder, call_end, response, known] {
    const placement::PlacementMapPtr map = holder.Get();
    if (map != nullptr) {
      convert::ToProto(placement::DeltaSince(*map, std::min(known, map->epoch)),
                       response->mutable_map());
    }
    call_end->Finish(map != nullptr ? grpc::Status::OK
                                    : ToGrpc(ErrorStatus(StatusCode::kUnavailable,
                                                         "this node has not joined its cluster yet",
                                                         "try again in a moment")));
  });
  return call_end;
}

grpc::Status ClusterService::Status(grpc::ServerContext* call, const v1::StatusRequest*,
                                    v1::StatusResponse* response) {
  if (const auto joined = node_.CheckJoined(); !joined.ok()) return ToGrpc(joined);
  const placement::PlacementMapPtr map = node_.NewestMap();
  response->set_cluster_uuid(map->cluster_uuid);
  response->set_epoch(map->epoch.value());
  response->set_nodes_expected(map->nodes_expected);
  response->set_forming(map->forming());
  response->set_coordinator(node_.coordinator_node.load());
  AddStore(node_, *map, response);
  const auto nodes = CollectNodeStatus(&node_, *map, NamespaceId(), DeadlineOf(*call));
  std::vector<std::uint64_t> heard_ms;
  if (Coordinator* coordinator = node_.ActingCoordinator(); coordinator != nullptr) {
    heard_ms = coordinator->LastHeartbeatsMs();
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    auto* entry = response->add_nodes();
    convert::ToProto(map->nodes[i], entry->mutable_node());
    if (i < heard_ms.size()) entry->mutable_node()->set_last_heartbeat_ms(heard_ms[i]);
    if (nodes[i].ok()) {
      *entry->mutable_status() = *nodes[i];
    } else {
      entry->set_error(nodes[i].status().ToString());
    }
  }
  AddNamespaces(*map, nodes, TotalsOf(&node_, *map, nodes), response);
  return grpc::Status::OK;
}

grpc::Status ClusterService::Login(grpc::ServerContext* call, const v1::LoginRequest* request,
                                   v1::LoginResponse* response) {
  if (node_.options.auth != kAuthMunge) {
    return ToGrpc(ErrorStatus(StatusCode::kFailedPrecondition,
                              "this service has its job token in a file, not by MUNGE",
                              "the connection file names the token's file"));
  }
  std::string token = node_.peers.token();
  if (token.empty()) {
    return ToGrpc(ErrorStatus(StatusCode::kUnavailable, "this node is still starting",
                              "try again in a moment"));
  }
  const ErrorStatus read = cluster_file::ReadCredential(
      request->munge_credential(), node_.control_address, node_.options.munge_socket);
  if (!read.ok()) {
    refused_.Warn("login refused, from " + call->peer() + ": " + read.ToString());
    return ToGrpc(read);
  }
  response->set_job_token(std::move(token));
  return grpc::Status::OK;
}

grpc::Status ClusterService::Attach(grpc::ServerContext* call, const v1::AttachRequest* request,
                                    v1::AttachResponse* response) {
  if (const auto joined = node_.CheckJoined(); !joined.ok()) return ToGrpc(joined);
  AttachRequest attach;
  attach.worker_address = request->worker_address();
  // A session of an earlier process is unknown here: the client gets a new one and learns by
  // `resumed` that what it had not heard of ended unknown.
  if (request->incarnation() == node_.incarnation) attach.session = SessionId(request->session());
  attach.daemon = request->daemon();
  attach.client_name = CleanName(request->client_name());
  auto attached = node_.cores->Attach(attach, DeadlineOf(*call));
  if (!attached.ok()) return ToGrpc(attached.status());
  response->set_session(attached->session.value());
  response->set_resumed(attached->resumed);
  response->set_connection(attached->connection);
  response->set_incarnation(node_.incarnation);
  response->set_node_id(node_.self().value());
  for (std::size_t i = 0; i < attached->worker_addresses.size(); ++i) {
    auto* core = response->add_cores();
    core->set_core(static_cast<std::uint32_t>(i));
    core->set_worker_address(std::move(attached->worker_addresses[i]));
  }
  response->set_credit_operations(attached->credit_operations);
  response->set_credit_bytes(attached->credit_bytes);
  response->set_epoch(node_.map.Get()->epoch.value());
  response->set_memory_address(node_.cores->memory_address());
  return grpc::Status::OK;
}

grpc::Status ClusterService::NodeStatus(grpc::ServerContext* call,
                                        const v1::NodeStatusRequest* request,
                                        v1::NodeStatusResponse* response) {
  if (const auto joined = node_.CheckJoined(); !joined.ok()) return ToGrpc(joined);
  const Deadline deadline(
      std::min(DeadlineOf(*call).at_ns(), Deadline::AfterMs(kNodeStatusTimeoutMs).at_ns()));
  *response = LocalNodeStatus(&node_, NamespaceId(request->partitions_of()), deadline,
                              request->residence());
  return grpc::Status::OK;
}

}  // namespace tidepool::daemon
