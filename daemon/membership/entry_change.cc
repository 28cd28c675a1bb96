#include "daemon/membership/entry_change.h"

#include <algorithm>
#include <string>
#include <utility>

#include "proto/base/limits.h"

namespace tidepool::daemon {
namespace {

using placement::Namespace;
using placement::PartitionPlace;
using What = EntryStep::What;

Status CheckProcess(const EntryStep& step, const std::vector<placement::Node>& nodes) {
  if (step.node.value() >= nodes.size()) {
    return Status(StatusCode::kInvalidArgument,
                  "there is no node " + std::to_string(step.node.value()), "see: kvctl status");
  }
  const placement::Node& node = nodes[step.node.value()];
  if (node.state == placement::NodeState::kUp && node.incarnation == step.incarnation) {
    return OkStatus();
  }
  return Status(StatusCode::kUnavailable,
                "node " + std::to_string(node.id.value()) + " (" + node.host +
                    ") is not up, or was started again",
                "see: kvctl status");
}

// The partition whose entry changes.
struct Changed {
  const std::vector<placement::Node>& nodes;
  const placement::Namespace& space;
  PartitionPlace& place;
  PartitionEntry& entry;

  std::vector<PartitionCopy>::iterator Find(const EntryStep& step) const {
    return std::find_if(entry.copies.begin(), entry.copies.end(), [&](const auto& copy) {
      return copy.node == step.node && copy.incarnation == step.incarnation;
    });
  }
};

Status JoinCopy(const EntryStep& step, const Changed& changed) {
  TP_RETURN_IF_ERROR(CheckCopyable(changed.space));
  TP_RETURN_IF_ERROR(CheckProcess(step, changed.nodes));
  if (step.core.value() >= changed.nodes[step.node.value()].cores) {
    return Status(StatusCode::kInvalidArgument, "the node has no such core");
  }
  if (changed.place.node == step.node) {
    return Status(StatusCode::kFailedPrecondition, "the node is the partition's owner");
  }
  const auto found = changed.Find(step);
  if (found != changed.entry.copies.end() && found->in_sync) {
    return Status(StatusCode::kFailedPrecondition, "the node holds an in-sync copy");
  }
  // A joining copy of an earlier attempt starts over.
  if (found != changed.entry.copies.end()) changed.entry.copies.erase(found);
  changed.entry.copies.push_back(
      {step.node, step.incarnation, step.core, false, changed.entry.version + 1});
  return OkStatus();
}

Status HandOver(const EntryStep& step, const Changed& changed) {
  TP_RETURN_IF_ERROR(CheckProcess(step, changed.nodes));
  const auto found = changed.Find(step);
  if (found == changed.entry.copies.end() || !found->in_sync) {
    return Status(StatusCode::kFailedPrecondition, "the node has no in-sync copy");
  }
  PartitionPlace& place = changed.place;
  if (place.term.value() >= limits::kTermMax) {
    return Status(StatusCode::kResourceExhausted,
                  "the partition has been granted as often as it can be");
  }
  const PartitionCopy former{place.node, changed.nodes[place.node.value()].incarnation, place.core,
                             true};
  place.node = found->node;
  place.core = found->core;
  place.term = Term(place.term.value() + 1);
  place.state = placement::PartitionState::kActive;
  *found = former;
  return OkStatus();
}

Status ApplyStep(const EntryStep& step, const Changed& changed) {
  if (step.what == What::kTouch) return OkStatus();
  if (step.what == What::kJoin) return JoinCopy(step, changed);
  if (step.what == What::kHandover) return HandOver(step, changed);
  const auto found = changed.Find(step);
  if (found == changed.entry.copies.end()) {
    return Status(StatusCode::kFailedPrecondition, "the node holds no copy");
  }
  if (step.what == What::kDrop) {
    changed.entry.copies.erase(found);
    return OkStatus();
  }
  TP_RETURN_IF_ERROR(CheckProcess(step, changed.nodes));
  found->in_sync = true;
  return OkStatus();
}

bool HasEnded(NodeId id, std::uint64_t incarnation, const std::vector<placement::Node>& nodes) {
  const placement::Node& node = nodes[id.value()];
  return node.incarnation != incarnation || node.state == placement::NodeState::kLeft;
}

}  // namespace

Status CheckCopyable(const Namespace& space) {
  std::string why;
  if (space.kind != placement::Kind::kHash) {
    why = "is of kind " + std::string(placement::KindName(space.kind));
  } else if (space.options.durable()) {
    why = "is durable, and stays on the devices where it was made";
  } else if (space.options.prefilter == "admit") {
    why = "has a filter of sighted keys (prefilter admit), which is not copied";
  } else if (space.options.medium != "any") {
    why = "wants devices of medium '" + space.options.medium + "'";
  } else {
    return OkStatus();
  }
  return Status(StatusCode::kUnimplemented, "'" + space.name + "' " + why,
                "only volatile namespaces of kind hash are copied to other nodes");
}

Status ApplySteps(const EntryChange& change, const std::vector<placement::Node>& nodes,
                  Namespace* space, PartitionEntry* entry) {
  PartitionPlace& place = space->partitions[change.partition];
  if (place.term != change.term || entry->version != change.version ||
      place.state == placement::PartitionState::kLost) {
    return Status(StatusCode::kAborted, "the partition's entry has changed meanwhile");
  }
  for (const EntryStep& step : change.steps) {
    // The coordinator has looked; there is nothing to change by request.
    if (step.what == What::kSuspect) {
      return Status(StatusCode::kFailedPrecondition, "the owner's process is alive");
    }
    if (space->options.replicas > 1 && step.what == What::kHandover) {
      return Status(StatusCode::kUnimplemented, "'" + space->name + "' has replicas, and " +
                                                    "partitions with replicas do not move yet");
    }
    TP_RETURN_IF_ERROR(ApplyStep(step, {nodes, *space, place, *entry}));
  }
  ++entry->version;
  return OkStatus();
}

void RenewEntries(const ClusterState& before, ClusterState* next) {
  const auto& nodes = next->map.nodes;
  std::erase_if(next->entries,
                [next](const auto& entry) { return next->map.Find(entry.first) == nullptr; });
  for (auto& [id, entry] : next->entries) {
    if (entry.copies.empty()) continue;
    if (next->map.Find(id.space())->options.replicas > 1) continue;  // See replica_rules.h.
    const NodeId owner = next->map.Find(id)->node;
    const bool owner_ended = owner.value() >= before.map.nodes.size() ||
                             HasEnded(owner, before.map.nodes[owner.value()].incarnation, nodes);
    const std::size_t ended = std::erase_if(entry.copies, [&](const PartitionCopy& copy) {
      return owner_ended || HasEnded(copy.node, copy.incarnation, nodes);
    });
    if (ended > 0) ++entry.version;
  }
}

}  // namespace tidepool::daemon
