#include "daemon/services/admin_service.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "daemon/routing/call_deadline.h"
#include "daemon/routing/forwarded_call.h"
#include "daemon/services/node_status.h"
#include "proto/base/thread.h"
#include "proto/convert/grpc_status.h"
#include "proto/machine/machine_facts.h"
#include "proto/transport/network_ways.h"

namespace tidepool::daemon {
namespace {

using convert::ToGrpc;

constexpr std::uint64_t kStopOneMs = 3000;
constexpr std::uint64_t kLeaveWaitMs = 5000;
constexpr int kLossesNamed = 10;

Deadline Sooner(Deadline a, std::uint64_t ms) {
  return Deadline(std::min(a.at_ns(), Deadline::AfterMs(ms).at_ns()));
}

// "stopping would lose: 'inputs' (12 records, 3400 bytes), ..."
Status RefuseToLose(const v1::CheckStopResponse& found) {
  std::string what;
  for (int i = 0; i < found.losses_size() && i < kLossesNamed; ++i) {
    const auto& loss = found.losses(i);
    what += (what.empty() ? "stopping would lose: '" : ", '") + loss.namespace_() + "' (" +
            std::to_string(loss.records()) + " records, " + std::to_string(loss.bytes()) +
            " bytes)";
  }
  if (found.losses_size() > kLossesNamed) {
    what += " and " + std::to_string(found.losses_size() - kLossesNamed) + " more namespaces";
  }
  for (const std::string& node : found.nodes_unknown()) {
    what += (what.empty() ? "" : "; ") + std::string("what is on ") + node + " is not known";
  }
  return Status(
      StatusCode::kFailedPrecondition, what,
      "kvctl stage out NAMESPACE DIR saves a namespace; --discard gives up what is named");
}

}  // namespace

grpc::Status AdminService::GetConfig(grpc::ServerContext*, const v1::GetConfigRequest*,
                                     v1::GetConfigResponse* response) {
  for (const OptionValue& option : node_.option_values) {
    auto* to = response->add_options();
    to->set_name(option.name);
    to->set_value(option.value);
    to->set_source(std::string(OptionSourceName(option.source)));
    to->set_help(option.help);
    // The only option that changes while the daemon runs.
    if (option.name == "log-level") to->set_value(std::string(log::LevelName(log::GetLevel())));
  }
  return grpc::Status::OK;
}

grpc::Status AdminService::SetLogLevel(grpc::ServerContext*, const v1::SetLogLevelRequest* request,
                                       v1::SetLogLevelResponse* response) {
  log::Level level = log::Level::kInfo;
  if (const Status parsed = log::ParseLevel(request->level(), &level); !parsed.ok()) {
    return ToGrpc(parsed);
  }
  response->set_previous(std::string(log::LevelName(log::GetLevel())));
  log::SetLevel(level);
  return grpc::Status::OK;
}

grpc::Status AdminService::ResetStats(grpc::ServerContext*, const v1::ResetStatsRequest*,
                                      v1::ResetStatsResponse*) {
  node_.cores->ResetStats();
  return grpc::Status::OK;
}

grpc::Status AdminService::Ping(grpc::ServerContext*, const v1::PingRequest*,
                                v1::PingResponse* response) {
  if (const Status joined = node_.CheckJoined(); !joined.ok()) return ToGrpc(joined);
  response->set_node_id(node_.self().value());
  response->set_version(node_.version);
  response->set_incarnation(node_.incarnation);
  response->set_uptime_ms((Clock::Real().MonotonicNs() - node_.started_ns) / 1'000'000);
  return grpc::Status::OK;
}

grpc::Status AdminService::Machine(grpc::ServerContext*, const v1::MachineRequest*,
                                   v1::MachineResponse* response) {
  v1::MachineFacts& facts = *response->mutable_facts();
  facts = machine::ReadMachineFacts();
  facts.set_network_library(transport::NetworkLibrary());
  for (const transport::NetworkWay& way : transport::NetworkWays()) {
    auto* to = facts.add_ways();
    to->set_transport(way.transport);
    to->set_device(way.device);
  }
  facts.set_wall_ms(Clock::Real().WallMs());  // Opening the devices has taken its time.
  return grpc::Status::OK;
}

v1::CheckStopResponse AdminService::FindLosses(bool cluster, Deadline deadline) {
  const placement::PlacementMapPtr map = node_.NewestMap();
  std::vector<Result<v1::NodeStatusResponse>> nodes;
  v1::CheckStopResponse found;
  if (cluster) {
    nodes = CollectNodeStatus(&node_, *map, NamespaceId(), deadline);
  } else {
    nodes.emplace_back(LocalNodeStatus(&node_, NamespaceId(), deadline));
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    // A node that left in good order has settled its losses already.
    if (nodes[i].ok() || map->nodes[i].state == placement::NodeState::kLeft) continue;
    found.add_nodes_unknown(NodeText(map->nodes[i]));
  }
  for (const auto& [id, totals] : TotalsOf(&node_, *map, nodes)) {
    const auto space = map->Find(id);
    if (totals.saved || space == nullptr || space->options.durability != "volatile") continue;
    auto* loss = found.add_losses();
    loss->set_namespace_(space->name);
    loss->set_records(totals.records);
    loss->set_bytes(totals.live_bytes);
  }
  return found;
}

grpc::Status AdminService::CheckStop(grpc::ServerContext* call, const v1::CheckStopRequest* request,
                                     v1::CheckStopResponse* response) {
  if (const Status joined = node_.CheckJoined(); !joined.ok()) return ToGrpc(joined);
  *response = FindLosses(request->cluster(), DeadlineOf(*call));
  return grpc::Status::OK;
}

grpc::Status AdminService::Stop(grpc::ServerContext* call, const v1::StopRequest* request,
                                v1::StopResponse* response) {
  const Deadline deadline = DeadlineOf(*call);
  if (!node_.joined()) {
    node_.request_stop({.loss_agreed = true});  // It holds nothing yet.
    return grpc::Status::OK;
  }
  if (!request->discard()) {
    const v1::CheckStopResponse found = FindLosses(request->cluster(), deadline);
    if (found.losses_size() > 0 || found.nodes_unknown_size() > 0) {
      return ToGrpc(RefuseToLose(found));
    }
  }
  if (request->cluster()) {
    return ToGrpc(StopCluster(*call, *request, response));
  }
  response->add_nodes_stopped(NodeText(node_.map.Get()->nodes[node_.self().value()]));
  node_.request_stop({.loss_agreed = true});
  return grpc::Status::OK;
}

Status AdminService::StopCluster(const grpc::ServerContext& call, const v1::StopRequest& request,
                                 v1::StopResponse* response) {
  const Deadline deadline = DeadlineOf(call);
  const placement::PlacementMapPtr map = node_.NewestMap();
  const placement::Node* coordinator = node_.CoordinatorNode(*map);
  // Between two elections it may still be named that is the coordinator no more, or not yet: this
  // node itself among them.
  const bool is_another = coordinator != nullptr && coordinator->id != node_.self();
  if (node_.ActingCoordinator() == nullptr && is_another && !IsForwarded(call) &&
      coordinator->state == placement::NodeState::kUp && node_.CheckAnswers(coordinator->id).ok()) {
    // The coordinator goes last: it removes the connection file after the other nodes have left.
    grpc::ClientContext context;
    node_.peers.Prepare(&context, deadline);
    MarkForwarded(&context);
    const auto stub = v1::Admin::NewStub(node_.peers.Get(coordinator->control_address));
    const Status stopped =
        convert::FromGrpc(stub->Stop(&context, request, response), NodeText(*coordinator));
    if (stopped.code() != StatusCode::kUnavailable &&
        stopped.code() != StatusCode::kDeadlineExceeded) {
      return stopped;
    }
    response->Clear();
  }
  StopOthers(deadline, response);
  response->add_nodes_stopped(NodeText(map->nodes[node_.self().value()]));
  node_.request_stop({.loss_agreed = true, .whole_cluster = true});
  return OkStatus();
}

void AdminService::StopOthers(Deadline deadline, v1::StopResponse* response) {
  const placement::PlacementMapPtr map = node_.NewestMap();
  std::vector<NodeId> others;
  for (const placement::Node& each : map->nodes) {
    if (each.id != node_.self() && each.state != placement::NodeState::kLeft) {
      others.push_back(each.id);
    }
  }
  std::vector<Status> outcomes(others.size());
  ForEachAtOnce(others.size(), [&](std::size_t i) {
    const placement::Node& other = map->nodes[others[i].value()];
    grpc::ClientContext context;
    node_.peers.Prepare(&context, Sooner(deadline, kStopOneMs));
    v1::StopRequest request;
    request.set_discard(true);  // The possible losses were found or accepted for all nodes before.
    v1::StopResponse ignored;
    const auto stub = v1::Admin::NewStub(node_.peers.Get(other.control_address));
    outcomes[i] = convert::FromGrpc(stub->Stop(&context, request, &ignored), NodeText(other));
  });
  std::vector<NodeId> leaving;
  for (std::size_t i = 0; i < others.size(); ++i) {
    const placement::Node& other = map->nodes[others[i].value()];
    if (outcomes[i].ok()) {
      response->add_nodes_stopped(NodeText(other));
      leaving.push_back(other.id);
    } else {
      response->add_nodes_failed(NodeText(other) + ": " + std::string(outcomes[i].what()));
    }
  }
  WaitUntilLeft(leaving, Sooner(deadline, kLeaveWaitMs));
}

void AdminService::WaitUntilLeft(const std::vector<NodeId>& nodes, Deadline deadline) {
  // Only the coordinator hears of it.
  if (node_.ActingCoordinator() == nullptr) return;
  MapHolder& holder = node_.NewestHolder();
  while (true) {
    const placement::PlacementMapPtr map = holder.Get();
    const bool all_left = std::all_of(nodes.begin(), nodes.end(), [&](NodeId id) {
      return map->nodes[id.value()].state == placement::NodeState::kLeft;
    });
    if (all_left || !holder.WaitFor(Epoch(map->epoch.value() + 1), deadline)) return;
  }
}

}  // namespace tidepool::daemon
