#include "proto/placement/placement_map.h"

#include <algorithm>

#include "proto/base/limits.h"

namespace tidepool::placement {

std::string_view NodeStateName(NodeState state) {
  switch (state) {
    case NodeState::kUp:
      return "up";
    case NodeState::kDown:
      return "down";
    case NodeState::kLeft:
      return "left";
  }
  return "invalid";
}

const Node* PlacementMap::FindNode(NodeId id) const {
  return id.value() < nodes.size() ? &nodes[id.value()] : nullptr;
}

std::shared_ptr<const Namespace> PlacementMap::Find(NamespaceId id) const {
  const auto found = namespaces.find(id);
  return found == namespaces.end() ? nullptr : found->second;
}

std::shared_ptr<const Namespace> PlacementMap::Find(std::string_view name) const {
  // Linear: a name is looked up when a handle is opened, not per operation.
  const auto found = std::find_if(namespaces.begin(), namespaces.end(),
                                  [&](const auto& entry) { return entry.second->name == name; });
  return found == namespaces.end() ? nullptr : found->second;
}

const PartitionPlace* PlacementMap::Find(PartitionId id) const {
  const auto found = namespaces.find(id.space());
  if (found == namespaces.end() || id.index() >= found->second->partitions.size()) return nullptr;
  return &found->second->partitions[id.index()];
}

void ForgetOldDrops(PlacementMap* map) {
  // Ids grow with time, but the lowest ids are not always the oldest drops: choose by
  // epoch.
  while (map->dropped.size() > kDropsKept) {
    const auto oldest =
        std::min_element(map->dropped.begin(), map->dropped.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    map->drops_known_since = std::max(map->drops_known_since, oldest->second);
    map->dropped.erase(oldest);
  }
}

PlacementDelta DeltaSince(const PlacementMap& map, Epoch since) {
  if (since < map.drops_known_since) since = Epoch(0);
  PlacementDelta delta;
  delta.since = since;
  delta.changes.epoch = map.epoch;
  delta.changes.cluster_uuid = map.cluster_uuid;
  delta.changes.nodes_expected = map.nodes_expected;
  delta.changes.nodes = map.nodes;
  for (const auto& [id, space] : map.namespaces) {
    if (space->changed > since) delta.changes.namespaces.emplace(id, space);
  }
  for (const auto& [id, epoch] : map.dropped) {
    if (epoch > since) delta.changes.dropped.emplace(id, epoch);
  }
  return delta;
}

PlacementMapPtr Apply(const PlacementMapPtr& base, const PlacementDelta& delta) {
  if (base == nullptr && delta.since != Epoch(0)) return nullptr;
  if (base != nullptr && delta.changes.epoch <= base->epoch) return base;
  if (base != nullptr && delta.since > base->epoch) return nullptr;
  auto next = std::make_shared<PlacementMap>(delta.changes);
  if (delta.since == Epoch(0)) {
    next->drops_known_since = next->epoch;
    return next;
  }
  next->drops_known_since = base->drops_known_since;
  for (const auto& [id, space] : base->namespaces) next->namespaces.emplace(id, space);
  next->dropped.insert(base->dropped.begin(), base->dropped.end());
  for (const auto& [id, epoch] : delta.changes.dropped) next->namespaces.erase(id);
  ForgetOldDrops(next.get());
  return next;
}

Status CheckNamespaceName(std::string_view name) {
  const bool fits = !name.empty() && name.size() <= limits::kNamespaceNameBytesMax;
  const bool clean = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '/' || c == '-';
  });
  if (fits && clean) return OkStatus();
  return Status(StatusCode::kInvalidArgument,
                "'" + std::string(name.substr(0, 60)) + "' is not a name of a namespace",
                "use 1 to 200 of the characters A-Z a-z 0-9 . _ / -");
}

}  // namespace tidepool::placement
