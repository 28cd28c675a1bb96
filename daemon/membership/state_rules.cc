#include "daemon/membership/state_rules.h"

#include <algorithm>
#include <set>
#include <string>

namespace tidepool::daemon {
namespace {

using placement::Namespace;
using placement::PartitionPlace;

std::string_view BrokenByNodes(const ClusterState& before, const ClusterState& next) {
  const auto& old_nodes = before.map.nodes;
  const auto& new_nodes = next.map.nodes;
  if (new_nodes.size() < old_nodes.size()) return "a node is never forgotten";
  if (new_nodes.size() != next.nodes.size()) return "each node has a record";
  for (std::size_t i = 0; i < old_nodes.size(); ++i) {
    if (new_nodes[i].uuid != old_nodes[i].uuid) return "a node keeps its UUID";
    if (new_nodes[i].incarnation < old_nodes[i].incarnation) return "incarnations never fall";
  }
  return {};
}

std::string_view BrokenByPartitions(const Namespace& before, const Namespace& next) {
  if (next.partitions.size() < before.partitions.size()) return "a partition is never forgotten";
  for (std::size_t i = 0; i < before.partitions.size(); ++i) {
    const PartitionPlace& old_place = before.partitions[i];
    const PartitionPlace& new_place = next.partitions[i];
    if (new_place.term < old_place.term) return "terms never fall";
    const bool moves = new_place.node != old_place.node || new_place.core != old_place.core;
    if (moves && new_place.term == old_place.term) return "a new owner has a greater term";
  }
  return {};
}

std::string_view BrokenByEntries(const ClusterState& before, const ClusterState& next) {
  for (const auto& [id, entry] : next.entries) {
    const PartitionPlace* const place = next.map.Find(id);
    if (place == nullptr) return "an entry is of a partition";
    std::set<NodeId> holders = {place->node};
    for (const PartitionCopy& copy : entry.copies) {
      if (copy.node.value() >= next.nodes.size()) return "a copy is on a node";
      if (!holders.insert(copy.node).second) return "a node holds a partition once";
    }
    const auto found = before.entries.find(id);
    if (found == before.entries.end() || found->second == entry) continue;
    if (entry.version <= found->second.version) return "a changed entry has a greater version";
  }
  for (const auto& [id, entry] : before.entries) {
    if (next.map.Find(id) != nullptr && !next.entries.contains(id)) return "versions never fall";
  }
  return {};
}

}  // namespace

std::string_view BrokenRule(const ClusterState& before, const ClusterState& next) {
  if (next.map.epoch.value() != before.map.epoch.value() + 1) return "epochs rise by 1";
  if (!before.map.cluster_uuid.empty() && next.map.cluster_uuid != before.map.cluster_uuid) {
    return "a cluster keeps its UUID";
  }
  if (const auto broken = BrokenByNodes(before, next); !broken.empty()) return broken;
  if (next.next_namespace < before.next_namespace) return "ids of namespaces rise";
  if (const auto broken = BrokenByEntries(before, next); !broken.empty()) return broken;
  for (const auto& [id, space] : next.map.namespaces) {
    const auto found = before.map.namespaces.find(id);
    const bool is_new = found == before.map.namespaces.end();
    if (!is_new && found->second == space) continue;  // Shared, so unchanged.
    if (is_new && id < before.next_namespace) return "the id of a namespace is given once";
    if (!(id < next.next_namespace)) return "the next id is unused";
    if (space->changed != next.map.epoch) return "a changed namespace has the epoch of the change";
    if (is_new) continue;
    const auto broken = BrokenByPartitions(*found->second, *space);
    if (!broken.empty()) return broken;
  }
  return {};
}

}  // namespace tidepool::daemon
