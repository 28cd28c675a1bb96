#include "proto/stage/survey.h"

#include <algorithm>

#include "proto/stage/cluster.h"

namespace tidepool::stage {

Survey::Survey(const placement::Namespace& space, const Check& check, const FindNode& find) {
  for (const placement::PartitionPlace& place : space.partitions) {
    const placement::Node* node = find(place.node);
    const Status status = node == nullptr ? Status(StatusCode::kUnavailable,
                                                   "the owner is not in the map yet", "try again")
                                          : check(place);
    places_.push_back({place.node, status.ok()});
    if (!status.ok()) {
      const std::string number = "node " + std::to_string(place.node.value());
      AddMissing(place.node, node == nullptr ? number : Describe(*node), status);
      continue;
    }
    const auto at =
        std::lower_bound(owners_.begin(), owners_.end(), place.node,
                         [](const placement::Node& each, NodeId id) { return each.id < id; });
    if (at == owners_.end() || at->id != place.node) owners_.insert(at, *node);
  }
}

void Survey::AddMissing(NodeId node, const std::string& who, const Status& why) {
  const auto same = std::find_if(missing_.begin(), missing_.end(), [&](const Missing& each) {
    return each.node == node && each.why.code() == why.code();
  });
  if (same == missing_.end()) {
    missing_.push_back({node, who, why, 1});
  } else {
    ++same->partitions;
  }
}

void Survey::Drop(NodeId node, const Status& why) {
  const auto at = std::find_if(owners_.begin(), owners_.end(),
                               [&](const placement::Node& each) { return each.id == node; });
  if (at == owners_.end()) return;
  const std::string who = Describe(*at);
  owners_.erase(at);
  for (Place& place : places_) {
    if (place.node != node || !place.served) continue;
    place.served = false;
    AddMissing(node, who, why);
  }
}

bool IsOfNode(StatusCode code) {
  return code == StatusCode::kUnavailable || code == StatusCode::kDeadlineExceeded ||
         code == StatusCode::kDataLoss || code == StatusCode::kDeviceError ||
         code == StatusCode::kUnknown;
}

v1::MissingPart ToProto(const Survey::Missing& missing) {
  v1::MissingPart part;
  part.set_node_id(missing.node.value());
  part.set_node(missing.who);
  part.set_partitions(missing.partitions);
  part.set_code(static_cast<std::uint32_t>(missing.why.code()));
  part.set_why(std::string(missing.why.what()));
  return part;
}

std::string Text(const v1::MissingPart& missing, std::uint32_t partitions) {
  return missing.node() + ": " + std::to_string(missing.partitions()) + " of " +
         std::to_string(partitions) + " partitions; " + missing.why();
}

}  // namespace tidepool::stage
