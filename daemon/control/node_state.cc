#include "daemon/control/node_state.h"

#include "daemon/membership/etcd_session.h"

namespace tidepool::daemon {

Coordinator* NodeState::ActingCoordinator() const {
  Coordinator* here = coordinator.load(std::memory_order_acquire);
  if (here == nullptr || session == nullptr || session->election() != 0) return here;
  return nullptr;
}

const placement::Node* NodeState::CoordinatorNode(const placement::PlacementMap& known) const {
  const std::uint32_t id = coordinator_node.load();
  return id < known.nodes.size() ? &known.nodes[id] : nullptr;
}

Status NodeState::NoCoordinator() const {
  if (session != nullptr) TP_RETURN_IF_ERROR(session->CheckReached());
  return Status(StatusCode::kUnavailable, "no coordinator is elected at the moment",
                "try again in a moment, or see: kvctl status");
}

MapHolder& NodeState::NewestHolder() {
  Coordinator* here = ActingCoordinator();
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
  if (ActingCoordinator() == nullptr) {
    member.load()->Sync(deadline);
    if (auto space = map.Get()->Find(name); space != nullptr) return space;
  }
  return Status(StatusCode::kNotFound, "no namespace '" + name + "'",
                "kvctl namespace list shows those there are");
}

Status NodeState::CheckAnswers(NodeId other) const {
  if (other.value() != coordinator_node.load() || ActingCoordinator() != nullptr) {
    return OkStatus();
  }
  const Member* joined = member.load();
  const placement::PlacementMapPtr known = map.Get();
  const placement::Node* node = known == nullptr ? nullptr : CoordinatorNode(*known);
  return joined == nullptr || node == nullptr ? OkStatus() : joined->CheckCoordinator(*node);
}

std::string NodeText(const placement::Node& node) {
  return "node " + std::to_string(node.id.value()) + " (" + node.host + ", " +
         node.control_address + ")";
}

}  // namespace tidepool::daemon
