#include "daemon/node/election_finder.h"

#include <utility>

#include "daemon/control/node_state.h"

namespace tidepool::daemon {

Result<std::string> ElectionFinder::Find(Deadline deadline) {
  {
    const std::lock_guard lock(mutex_);
    if (!address_.empty()) return address_;
  }
  auto elected = session_.Elected(deadline);
  if (!elected.ok()) return elected.status();
  if (!elected->has_value() || (*elected)->address.empty()) {
    return Status(StatusCode::kUnavailable, "no coordinator is elected at the moment",
                  "try again in a moment");
  }
  const std::lock_guard lock(mutex_);
  address_ = (*elected)->address;
  return address_;
}

void ElectionFinder::OnLost(const std::string& address) {
  const std::lock_guard lock(mutex_);
  if (address_ == address) address_.clear();
}

bool ElectionFinder::OnElected(const std::optional<ElectedNode>& elected) {
  const std::lock_guard lock(mutex_);
  address_ = elected.has_value() ? elected->address : "";
  uuid_ = elected.has_value() ? elected->uuid : "";
  const std::int64_t revision = elected.has_value() ? elected->revision : 0;
  return std::exchange(revision_, revision) != revision;
}

std::uint32_t ElectionFinder::NodeIn(const placement::PlacementMap& map) const {
  const std::lock_guard lock(mutex_);
  for (const placement::Node& node : map.nodes) {
    if (node.uuid == uuid_) return node.id.value();
  }
  return NodeState::kNoNode;
}

}  // namespace tidepool::daemon
