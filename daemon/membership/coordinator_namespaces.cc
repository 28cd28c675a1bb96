// Namespaces: made, dropped, with what they have lost accepted, and with a range split in two.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "daemon/membership/coordinator.h"
#include "daemon/membership/namespace_rules.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"

namespace tidepool::daemon {

using placement::Namespace;

// What the options alone do not say.
Status Coordinator::CheckReplicas(const placement::NamespaceOptions& options) const {
  if (options.replicas <= 1) return OkStatus();
  const std::string wanted = "replicas " + std::to_string(options.replicas);
  if (!store_.HearsOfDeaths()) {
    return Status(StatusCode::kFailedPrecondition,
                  wanted + " needs etcd: only a store that knows of dead daemons may replace one",
                  "start all daemons with --store etcd --etcd, or give replicas 1");
  }
  if (options.replicas > options_.nodes_expected) {
    return Status(StatusCode::kFailedPrecondition,
                  wanted + " needs as many nodes, and the cluster has " +
                      std::to_string(options_.nodes_expected),
                  "give replicas 1, or start a service with more nodes");
  }
  if (options.home.empty()) return OkStatus();
  return Status(StatusCode::kInvalidArgument,
                wanted + " and a home exclude each other: copies lie on other nodes",
                "leave home out, or give replicas 1");
}

Result<CreateOutcome> Coordinator::CreateNamespace(std::string_view name, placement::Kind kind,
                                                   placement::NamespaceOptions options,
                                                   Deadline deadline) {
  TP_RETURN_IF_ERROR(placement::CheckNamespaceName(name));
  TP_RETURN_IF_ERROR(CheckNamespaceOptions(kind, options));
  std::sort(options.split_keys.begin(), options.split_keys.end());
  for (auto map = published_.Get(); map == nullptr || map->forming(); map = published_.Get()) {
    const Epoch next = After(map == nullptr ? Epoch(0) : map->epoch);
    if (published_.WaitFor(next, deadline)) continue;
    return Status(
        StatusCode::kUnavailable,
        "the cluster is still forming: " + std::to_string(map == nullptr ? 0 : map->nodes.size()) +
            " of " + std::to_string(options_.nodes_expected) + " nodes have joined",
        "start the others, or raise --timeout");
  }
  const std::lock_guard lock(state_mutex_);
  if (const auto existing = state_.map.Find(name); existing != nullptr) {
    TP_RETURN_IF_ERROR(CheckEqual(*existing, kind, options));
    return CreateOutcome{existing, false, state_.map.epoch};
  }
  if (state_.next_namespace.value() > limits::kNamespacesMax) {
    return Status(StatusCode::kResourceExhausted,
                  "the cluster has given all its " + std::to_string(limits::kNamespacesMax) +
                      " namespace ids",
                  "start a new service");
  }
  auto space = std::make_shared<Namespace>();
  TP_RETURN_IF_ERROR(CheckReplicas(options));
  space->id = state_.next_namespace;
  space->name = std::string(name);
  space->kind = kind;
  // Namespaces of one partition, or of few, would all lie on the first core.
  const std::uint32_t first = HasFewPartitions(kind) ? space->id.value() : 0;
  const auto nodes = NodesFor(state_.map.nodes, options.home);
  if (!nodes.ok()) return nodes.status();
  TP_RETURN_IF_ERROR(CheckDevices(*nodes, state_.nodes, options));
  space->partitions = SpreadPartitions(*nodes, PartitionsWanted(kind, options), first);
  if (space->partitions.empty()) {
    return Status(StatusCode::kUnavailable, "no node is up to hold '" + space->name + "'",
                  "see: kvctl status");
  }
  if (options.durable() || options.replicas > 1) {
    for (placement::PartitionPlace& place : space->partitions) place.data_from = place.term;
  }
  if (kind == Kind::kOrdered) {
    auto ranges = RangesOf(options);
    if (!ranges.ok()) return ranges.status();
    space->ranges = std::make_shared<const placement::Ranges>(*std::move(ranges));
  }
  space->options = std::move(options);
  space->options.home.clear();
  space->options.partitions = static_cast<std::uint32_t>(space->partitions.size());
  ClusterState next = state_;
  next.map.epoch = After(state_.map.epoch);
  space->changed = next.map.epoch;
  next.next_namespace = NamespaceId(space->id.value() + 1);
  next.map.namespaces.emplace(space->id, space);
  TP_RETURN_IF_ERROR(Commit(std::move(next)));
  return CreateOutcome{space, true, state_.map.epoch};
}

Result<Epoch> Coordinator::DropNamespace(std::string_view name) {
  TP_RETURN_IF_ERROR(placement::CheckNamespaceName(name));
  const std::lock_guard lock(state_mutex_);
  const auto space = state_.map.Find(name);
  if (space == nullptr) {
    return Status(StatusCode::kNotFound, "no namespace '" + std::string(name) + "'",
                  "kvctl namespace list shows those there are");
  }
  if (name == kDefaultNamespace) {
    return Status(StatusCode::kFailedPrecondition, "the namespace 'default' always exists",
                  "delete its keys instead");
  }
  ClusterState next = state_;
  next.map.epoch = After(state_.map.epoch);
  next.map.namespaces.erase(space->id);
  next.map.dropped.emplace(space->id, next.map.epoch);
  for (NodeRecord& record : next.nodes) record.nothing_to_lose.erase(space->id);
  TP_RETURN_IF_ERROR(Commit(std::move(next)));
  return state_.map.epoch;
}

Result<AcceptOutcome> Coordinator::AcceptLoss(std::string_view name) {
  const std::lock_guard lock(state_mutex_);
  const auto space = state_.map.Find(name);
  if (space == nullptr) {
    return Status(StatusCode::kNotFound, "no namespace '" + std::string(name.substr(0, 200)) + "'",
                  "kvctl namespace list shows those there are");
  }
  auto changed = std::make_shared<Namespace>(*space);
  if (space->options.durable()) {
    std::vector<placement::Node> owners;
    for (const placement::PartitionPlace& place : space->partitions) {
      if (place.state != placement::PartitionState::kLost) continue;
      owners.push_back(state_.map.nodes[place.node.value()]);
    }
    TP_RETURN_IF_ERROR(CheckDevices(owners, state_.nodes, space->options));
  }
  auto accepted = AcceptLostPartitions(state_.map, changed.get());
  if (!accepted.ok()) return accepted.status();
  if (*accepted == 0) return AcceptOutcome{0, state_.map.epoch};
  ClusterState next = state_;
  next.map.epoch = After(state_.map.epoch);
  changed->changed = next.map.epoch;
  next.map.namespaces[changed->id] = std::move(changed);
  TP_RETURN_IF_ERROR(Commit(std::move(next)));
  log::Info("loss accepted: " + std::to_string(*accepted) + " partitions of '" + std::string(name) +
            "' serve again, empty");
  return AcceptOutcome{*accepted, state_.map.epoch};
}

Result<Epoch> Coordinator::SplitPartition(const RangeSplit& split) {
  const std::lock_guard lock(state_mutex_);
  const auto space = state_.map.Find(split.space);
  if (space == nullptr) return Status(StatusCode::kNotFound, "the namespace was dropped");
  if (IsSplitSo(*space, split)) return state_.map.epoch;
  auto changed = std::make_shared<Namespace>(*space);
  TP_RETURN_IF_ERROR(SplitRange(split, changed.get()));
  ClusterState next = state_;
  next.map.epoch = After(state_.map.epoch);
  changed->changed = next.map.epoch;
  next.map.namespaces[changed->id] = std::move(changed);
  TP_RETURN_IF_ERROR(Commit(std::move(next)));
  return state_.map.epoch;
}

}  // namespace tidepool::daemon
