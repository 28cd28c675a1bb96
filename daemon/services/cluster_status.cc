#include "daemon/services/cluster_status.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "daemon/membership/etcd_session.h"
#include "daemon/services/node_status.h"
#include "proto/convert/placement_convert.h"

namespace tidepool::daemon {
namespace {

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
    std::uint32_t missing = 0;
    for (const placement::PartitionPlace& place : space->partitions) {
      const auto in_sync =
          std::count_if(place.copies.begin(), place.copies.end(),
                        [](const placement::CopyPlace& copy) { return copy.in_sync; });
      const auto have = static_cast<std::uint32_t>(1 + in_sync);
      missing += space->options.replicas - std::min(space->options.replicas, have);
    }
    entry->set_copies_missing(missing);
    entry->set_partitions_silent(static_cast<std::uint32_t>(
        std::count_if(space->partitions.begin(), space->partitions.end(), [&](const auto& place) {
          return place.state == placement::PartitionState::kActive &&
                 !nodes[place.node.value()].ok();
        })));
  }
}

// Adds the store of the cluster's state, and its problems.
void AddStore(const NodeState& node, const placement::PlacementMap& map,
              v1::StatusResponse* response) {
  response->set_store(node.session == nullptr ? "embedded" : node.session->Describe());
  const placement::Node* coordinator = node.CoordinatorNode(map);
  Status found = node.session == nullptr ? OkStatus() : node.session->CheckReached();
  if (found.ok() && coordinator == nullptr) found = node.NoCoordinator();
  if (found.ok()) found = node.CheckAnswers(coordinator->id);
  if (!found.ok()) response->set_store_error(std::string(found.what()));
}

}  // namespace

void CollectClusterStatus(NodeState* node, Deadline deadline, v1::StatusResponse* response) {
  const placement::PlacementMapPtr map = node->NewestMap();
  response->set_cluster_uuid(map->cluster_uuid);
  response->set_epoch(map->epoch.value());
  response->set_nodes_expected(map->nodes_expected);
  response->set_forming(map->forming());
  response->set_coordinator(node->coordinator_node.load());
  AddStore(*node, *map, response);
  const auto nodes = CollectNodeStatus(node, *map, NamespaceId(), deadline);
  std::vector<std::uint64_t> heard_ms;
  if (Coordinator* coordinator = node->ActingCoordinator(); coordinator != nullptr) {
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
  AddNamespaces(*map, nodes, TotalsOf(node, *map, nodes), response);
}

}  // namespace tidepool::daemon
