// Grants of partitions to other nodes: what decides a move.
#include <memory>
#include <string>
#include <utility>

#include "daemon/membership/coordinator.h"
#include "daemon/membership/entry_change.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"

namespace tidepool::daemon {
namespace {

v1::GrantPartitionResponse NotGranted(bool superseded, const Status& why) {
  v1::GrantPartitionResponse response;
  response.set_superseded(superseded);
  response.set_code(static_cast<std::uint32_t>(why.code()));
  response.set_what(std::string(why.what()));
  response.set_remedy(std::string(why.remedy()));
  return response;
}

v1::ChangePartitionResponse NotChanged(const Status& why) {
  v1::ChangePartitionResponse response;
  response.set_code(static_cast<std::uint32_t>(why.code()));
  response.set_what(std::string(why.what()));
  response.set_remedy(std::string(why.remedy()));
  return response;
}

// REQUIRES: numbers within their limits.
EntryChange ChangeOf(const v1::ChangePartitionRequest& request) {
  EntryChange change;
  change.space = NamespaceId(request.namespace_id());
  change.partition = request.partition();
  change.term = Term(request.term());
  change.version = request.version();
  for (const v1::EntryStep& step : request.steps()) {
    change.steps.push_back({static_cast<EntryStep::What>(step.what()),
                            NodeId(static_cast<std::uint16_t>(step.node_id())), step.incarnation(),
                            CoreId(static_cast<std::uint16_t>(step.core()))});
  }
  return change;
}

}  // namespace

// Whether the process that asks for the partition is the one that the map means.
Status Coordinator::CheckTarget(const v1::GrantPartitionRequest& request) const {
  if (request.target_node() >= state_.map.nodes.size()) {
    return Status(StatusCode::kInvalidArgument,
                  "there is no node " + std::to_string(request.target_node()));
  }
  const placement::Node& target = state_.map.nodes[request.target_node()];
  if (request.target_node() == request.source_node()) return OkStatus();
  if (target.state == placement::NodeState::kUp &&
      target.incarnation == request.target_incarnation() && request.core() < target.cores) {
    return OkStatus();
  }
  return Status(StatusCode::kUnavailable,
                "node " + std::to_string(target.id.value()) + " (" + target.host +
                    ") is not up, or was started again",
                "see: kvctl status");
}

Result<v1::GrantPartitionResponse> Coordinator::GrantPartition(
    const v1::GrantPartitionRequest& request) {
  const std::lock_guard lock(state_mutex_);
  const auto space = state_.map.Find(NamespaceId(request.namespace_id()));
  if (space == nullptr || request.partition() >= space->partitions.size()) {
    return NotGranted(true, Status(StatusCode::kNotFound, "the namespace was dropped"));
  }
  placement::PartitionPlace place = space->partitions[request.partition()];
  v1::GrantPartitionResponse response;
  response.set_granted(true);
  response.set_epoch(state_.map.epoch.value());
  const bool was_granted = place.term.value() == request.term() + 1 &&
                           place.node.value() == request.target_node() &&
                           place.core.value() == request.core();
  if (was_granted) return response;
  if (place.term.value() != request.term() || place.node.value() != request.source_node() ||
      place.state == placement::PartitionState::kLost) {
    return NotGranted(
        true, Status(StatusCode::kAborted, "the partition has another owner or term by now"));
  }
  if (const Status target = CheckTarget(request); !target.ok()) return NotGranted(false, target);
  if (place.term.value() >= limits::kTermMax) {
    return NotGranted(false, Status(StatusCode::kResourceExhausted,
                                    "the partition has been granted as often as it can be"));
  }
  const bool moves = request.target_node() != request.source_node();
  place.term = Term(request.term() + 1);
  if (moves) {
    place.node = NodeId(static_cast<std::uint16_t>(request.target_node()));
    place.core = CoreId(static_cast<std::uint16_t>(request.core()));
    place.state = placement::PartitionState::kActive;
    if (space->options.durable()) place.data_from = place.term;
  }
  auto changed = std::make_shared<placement::Namespace>(*space);
  changed->partitions[request.partition()] = place;
  ClusterState next = state_;
  next.map.epoch = Epoch(state_.map.epoch.value() + 1);
  changed->changed = next.map.epoch;
  next.map.namespaces[changed->id] = std::move(changed);
  const Status committed = Commit(std::move(next));
  if (committed.code() == StatusCode::kUnknown) return committed;
  if (!committed.ok()) return NotGranted(false, committed);
  if (moves) {
    log::Info("partition " + std::to_string(request.partition()) + " of '" + space->name +
              "' has moved from node " + std::to_string(request.source_node()) + " to node " +
              std::to_string(request.target_node()));
  }
  response.set_epoch(state_.map.epoch.value());
  return response;
}

// The node of a dropped copy may have a cause that lasts, such as full memory.
void Coordinator::PauseAfterDrop(PartitionId id, const std::vector<EntryStep>& steps) {
  for (const EntryStep& step : steps) {
    if (step.what != EntryStep::What::kDrop) continue;
    repair_not_before_ns_[id] = clock_.MonotonicNs() + options_.repair_after_ms * 1'000'000ull;
  }
}

// The link to the process broke. Its lease guard ends its key at once if it was killed.
void Coordinator::Suspect(NodeId id, std::uint64_t incarnation) {
  if (!store_.HearsOfDeaths() || id.value() >= state_.map.nodes.size()) return;
  const placement::Node& node = state_.map.nodes[id.value()];
  if (node.incarnation != incarnation || node.state != placement::NodeState::kUp) return;
  const auto alive = store_.KnowsAlive(node);
  if (!alive.ok() || *alive) return;
  {
    // From now on a heartbeat waits for the state's lock before it lets the process serve.
    const std::lock_guard liveness_lock(liveness_mutex_);
    if (id.value() >= liveness_.size() || liveness_[id.value()].incarnation != incarnation) return;
    liveness_[id.value()].up = false;
  }
  MarkDown({id}, "has ended");
}

Result<v1::ChangePartitionResponse> Coordinator::ChangePartition(
    const v1::ChangePartitionRequest& request) {
  const std::lock_guard lock(state_mutex_);
  const EntryChange change = ChangeOf(request);
  if (change.steps.size() == 1 && change.steps[0].what == EntryStep::What::kSuspect) {
    Suspect(change.steps[0].node, change.steps[0].incarnation);
  }
  const auto space = state_.map.Find(NamespaceId(request.namespace_id()));
  if (space == nullptr || request.partition() >= space->partitions.size()) {
    return NotChanged(Status(StatusCode::kNotFound, "the namespace was dropped"));
  }
  const PartitionId id(change.space, change.partition);
  auto changed = std::make_shared<placement::Namespace>(*space);
  ClusterState next = state_;
  Status status = ApplySteps(change, state_.map.nodes, changed.get(), &next.entries[id]);
  if (status.ok()) {
    if (space->options.replicas > 1) PauseAfterDrop(id, change.steps);
    next.map.epoch = After(state_.map.epoch);
    if (changed->partitions[change.partition] != space->partitions[change.partition]) {
      changed->changed = next.map.epoch;
      next.map.namespaces[change.space] = std::move(changed);
    }
    status = Commit(std::move(next));
    if (status.code() == StatusCode::kUnknown) return status;
  }
  v1::ChangePartitionResponse response = NotChanged(status);
  response.set_changed(status.ok());
  response.set_epoch(state_.map.epoch.value());
  const placement::PartitionPlace& place = *state_.map.Find(id);
  const auto entry = state_.entries.find(id);
  response.set_term(place.term.value());
  response.set_version(entry == state_.entries.end() ? 0 : entry->second.version);
  response.set_owner_node(place.node.value());
  return response;
}

}  // namespace tidepool::daemon
