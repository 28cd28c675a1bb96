#include "daemon/node_state.h"

namespace tidepool::daemon {

MapHolder& NodeState::NewestHolder() {
  Coordinator* here = coordinator.load(std::memory_order_acquire);
  return here != nullptr ? here->map() : map;
}

placement::PlacementMapPtr NodeState::NewestMap() { return NewestHolder().Get(); }

Status NodeState::CheckJoined() const {
  if (joined()) return OkStatus();
  return Status(StatusCode::kUnavailable, "this node has not joined its cluster yet",
                "try again in a moment");
}

Result<std::shared_ptr<const placement::Namespace>> NodeState::FindNamespace(
    const std::string& name, Deadline deadline) {
  TP_RETURN_IF_ERROR(CheckJoined());
  TP_RETURN_IF_ERROR(placement::CheckNamespaceName(name));
  if (auto space = NewestMap()->Find(name); space != nullptr) return space;
  if (coordinator.load() == nullptr) {
    member.load()->Sync(deadline);
    if (auto space = map.Get()->Find(name); space != nullptr) return space;
  }
  return Status(StatusCode::kNotFound, "no namespace '" + name + "'",
                "kvctl namespace list shows those there are");
}

Status NodeState::CheckAnswers(NodeId other) const {
  // The embedded coordinator is the first node for ever.
  if (other != NodeId(0) || coordinator.load() != nullptr) return OkStatus();
  const Member* joined = member.load();
  return joined == nullptr ? OkStatus() : joined->CheckCoordinator();
}

std::string NodeText(const placement::Node& node) {
  return "node " + std::to_string(node.id.value()) + " (" + node.host + ", " +
         node.control_address + ")";
}

}  // namespace tidepool::daemon
