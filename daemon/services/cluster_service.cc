#include "daemon/services/cluster_service.h"

#include <algorithm>
#include <utility>

#include "daemon/routing/call_deadline.h"
#include "daemon/services/cluster_status.h"
#include "daemon/services/node_status.h"
#include "proto/cluster_file/munge.h"
#include "proto/convert/grpc_status.h"
#include "proto/convert/placement_convert.h"

namespace tidepool::daemon {
namespace {

using convert::ToGrpc;
// Inside the class, Status is the method.
using ErrorStatus = tidepool::Status;

// Returns a name for people. Longer names and odd bytes have no use in a log.
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
  CollectClusterStatus(&node_, DeadlineOf(*call), response);
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
  // A session of an earlier process is unknown here. The client gets a new session and learns by
  // `resumed` that its unanswered changes ended unknown.
  if (request->incarnation() == node_.incarnation) attach.session = SessionId(request->session());
  attach.uncounted = request->uncounted();
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
