#include "daemon/membership/replica_rules.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "proto/base/limits.h"

namespace tidepool::daemon {
namespace {

using placement::Namespace;
using placement::Node;
using placement::NodeState;
using placement::PartitionPlace;
using placement::PartitionState;

bool IsReplicated(const Namespace& space) { return space.options.replicas > 1; }

bool IsUp(const std::vector<Node>& nodes, NodeId id, std::uint64_t incarnation) {
  const Node& node = nodes[id.value()];
  return node.state == NodeState::kUp && node.incarnation == incarnation;
}

// A down node's process may come back.
bool MayLive(const std::vector<Node>& nodes, NodeId id, std::uint64_t incarnation) {
  const Node& node = nodes[id.value()];
  return node.state != NodeState::kLeft && node.incarnation == incarnation;
}

// Namespaces of a map that change: each is copied once.
class NamespaceEdits {
 public:
  NamespaceEdits(placement::PlacementMap* map, Epoch changed) : map_(*map), changed_(changed) {}

  PartitionPlace& Place(PartitionId id) {
    std::shared_ptr<Namespace>& edited = edited_[id.space()];
    if (edited == nullptr) {
      edited = std::make_shared<Namespace>(*map_.Find(id.space()));
      if (changed_.value() != 0) edited->changed = changed_;
      map_.namespaces[id.space()] = edited;
    }
    return edited->partitions[id.index()];
  }

 private:
  placement::PlacementMap& map_;
  const Epoch changed_;  // 0: none, since nothing is new.
  std::map<NamespaceId, std::shared_ptr<Namespace>> edited_;
};

// Partitions and copies per node, of namespaces with replicas.
std::vector<std::size_t> LoadOf(const ClusterState& state) {
  std::vector<std::size_t> load(state.map.nodes.size());
  for (const auto& [id, space] : state.map.namespaces) {
    if (!IsReplicated(*space)) continue;
    for (const PartitionPlace& place : space->partitions) ++load[place.node.value()];
  }
  for (const auto& [id, entry] : state.entries) {
    for (const PartitionCopy& copy : entry.copies) ++load[copy.node.value()];
  }
  return load;
}

// Returns the node that gets the next copy; null: there is none.
const Node* ChooseNode(const std::vector<Node>& nodes, const PartitionPlace& place,
                       const std::vector<PartitionCopy>& copies,
                       const std::vector<std::size_t>& load) {
  const auto holds = [&](const auto& matches) {
    return matches(place.node) || std::any_of(copies.begin(), copies.end(),
                                              [&](const auto& copy) { return matches(copy.node); });
  };
  const Node* best = nullptr;
  std::pair<bool, std::size_t> best_cost;
  for (const Node& node : nodes) {
    if (node.state != NodeState::kUp || holds([&](NodeId id) { return id == node.id; })) continue;
    const bool shares_host = holds([&](NodeId id) { return nodes[id.value()].host == node.host; });
    const std::pair<bool, std::size_t> cost{shares_host, load[node.id.value()]};
    if (best != nullptr && cost >= best_cost) continue;
    best = &node;
    best_cost = cost;
  }
  return best;
}

bool WantsCopies(const ClusterState& state, const Namespace& space, std::uint32_t index,
                 const std::set<PartitionId>& paused) {
  const PartitionPlace& place = space.partitions[index];
  const PartitionId id(space.id, index);
  if (place.state != PartitionState::kActive || paused.contains(id)) return false;
  if (state.map.nodes[place.node.value()].state != NodeState::kUp) return false;
  const auto found = state.entries.find(id);
  return (found == state.entries.end() ? 0 : found->second.copies.size()) + 1 <
         space.options.replicas;
}

void NameCopies(const std::set<PartitionId>& paused, ClusterState* next) {
  std::vector<std::size_t> load = LoadOf(*next);
  const std::vector<Node>& nodes = next->map.nodes;
  for (const auto& [space_id, space] : next->map.namespaces) {
    if (!IsReplicated(*space)) continue;
    for (std::uint32_t i = 0; i < space->partitions.size(); ++i) {
      if (!WantsCopies(*next, *space, i, paused)) continue;
      PartitionEntry& entry = next->entries[PartitionId(space_id, i)];
      const std::uint64_t version = entry.version + 1;
      while (entry.copies.size() + 1 < space->options.replicas) {
        const Node* const node = ChooseNode(nodes, space->partitions[i], entry.copies, load);
        if (node == nullptr) break;
        const std::size_t core = load[node->id.value()]++ % node->cores;
        entry.copies.push_back({node->id, node->incarnation,
                                CoreId(static_cast<std::uint16_t>(core)), false, version});
        entry.version = version;
      }
    }
  }
}

// The changes of one entry when processes end.
class EntryRenewal {
 public:
  EntryRenewal(const ClusterState& before, ClusterState* next, NamespaceEdits* edits)
      : before_(before), next_(*next), edits_(*edits) {}

  void Renew(PartitionId id, PartitionEntry* entry) {
    const PartitionPlace* const was = before_.map.Find(id);
    if (was == nullptr) return;  // Made by this change.
    const std::vector<Node>& nodes = next_.map.nodes;
    const Node& owner = nodes[was->node.value()];
    const std::uint64_t incarnation = before_.map.nodes[was->node.value()].incarnation;
    const std::vector<PartitionCopy> copies = entry->copies;
    const bool owner_serves = IsUp(nodes, was->node, incarnation);
    // While the owner is down too, either may come back.
    std::erase_if(entry->copies, [&](const PartitionCopy& copy) {
      return !(owner_serves ? IsUp(nodes, copy.node, copy.incarnation)
                            : MayLive(nodes, copy.node, copy.incarnation));
    });
    if (!owner_serves) Replace(id, *was, owner, incarnation, entry);
    if (entry->copies != copies) ++entry->version;
  }
  std::vector<DeadProcess> TakeDead() { return std::move(dead_); }

 private:
  void Replace(PartitionId id, const PartitionPlace& was, const Node& owner,
               std::uint64_t incarnation, PartitionEntry* entry) {
    const std::vector<Node>& nodes = next_.map.nodes;
    const bool has_ended = !MayLive(nodes, owner.id, incarnation);
    const auto find = [&](bool up) {
      return std::find_if(entry->copies.begin(), entry->copies.end(), [&](const auto& copy) {
        return copy.in_sync && (!up || IsUp(nodes, copy.node, copy.incarnation));
      });
    };
    auto successor = find(true);
    // Its process is the only one with the data, and may come back.
    if (successor == entry->copies.end() && has_ended) successor = find(false);
    if (was.state == PartitionState::kLost || was.term.value() >= limits::kTermMax) {
      successor = entry->copies.end();
    }
    if (successor == entry->copies.end()) {
      if (has_ended) entry->copies.clear();
      return;
    }
    PartitionPlace& place = edits_.Place(id);
    place = was;
    place.node = successor->node;
    place.core = successor->core;
    place.term = Term(was.term.value() + 1);
    place.state = IsUp(nodes, successor->node, successor->incarnation) ? PartitionState::kActive
                                                                       : PartitionState::kDown;
    entry->copies.erase(successor);
    // A process that has left said so itself, and gave its lease up before.
    if (owner.state == NodeState::kLeft && owner.incarnation == incarnation) return;
    const DeadProcess dead{owner.uuid, incarnation};
    if (std::find(dead_.begin(), dead_.end(), dead) == dead_.end()) dead_.push_back(dead);
  }

  const ClusterState& before_;
  ClusterState& next_;
  NamespaceEdits& edits_;
  std::vector<DeadProcess> dead_;
};

void Show(ClusterState* state, NamespaceEdits* edits) {
  for (const auto& [id, entry] : state->entries) {
    const auto space = state->map.Find(id.space());
    if (space == nullptr || !IsReplicated(*space)) continue;
    const PartitionPlace& place = space->partitions[id.index()];
    if (place.version == entry.version && place.copies == entry.copies) continue;
    PartitionPlace& shown = edits->Place(id);
    shown.version = entry.version;
    shown.copies = entry.copies;
  }
}

}  // namespace

std::vector<DeadProcess> KeepReplicas(const ClusterState& before,
                                      const std::set<PartitionId>& paused, ClusterState* next) {
  NamespaceEdits edits(&next->map, next->map.epoch);
  EntryRenewal renewal(before, next, &edits);
  for (auto& [id, entry] : next->entries) {
    const auto space = next->map.Find(id.space());
    if (space != nullptr && IsReplicated(*space)) renewal.Renew(id, &entry);
  }
  NameCopies(paused, next);
  Show(next, &edits);
  return renewal.TakeDead();
}

bool LacksReplicas(const ClusterState& state, const std::set<PartitionId>& paused) {
  std::vector<std::size_t> load;
  for (const auto& [space_id, space] : state.map.namespaces) {
    if (!IsReplicated(*space)) continue;
    if (load.empty()) load = LoadOf(state);
    for (std::uint32_t i = 0; i < space->partitions.size(); ++i) {
      if (!WantsCopies(state, *space, i, paused)) continue;
      const auto found = state.entries.find(PartitionId(space_id, i));
      const std::vector<PartitionCopy> copies =
          found == state.entries.end() ? std::vector<PartitionCopy>() : found->second.copies;
      if (ChooseNode(state.map.nodes, space->partitions[i], copies, load) != nullptr) return true;
    }
  }
  return false;
}

void ShowReplicas(ClusterState* state) {
  NamespaceEdits edits(&state->map, Epoch(0));
  Show(state, &edits);
}

}  // namespace tidepool::daemon
