#include "proto/stage/cluster.h"

namespace tidepool::stage {

std::string Describe(const placement::Node& node) {
  return "node " + std::to_string(node.id.value()) + " (" + node.host + " " + node.control_address +
         ")";
}

Status CheckNothingLost(const placement::Namespace& space) {
  if (space.losses.empty()) return OkStatus();
  const bool all = space.losses.front().all;
  return Status(StatusCode::kDataLoss,
                std::to_string(space.losses.size()) + " of " +
                    std::to_string(space.partitions.size()) + " partitions of '" + space.name +
                    (all ? "' have lost what they held" : "' may have lost their last changes") +
                    " when their daemons ended: kvctl namespace describe " + space.name,
                "give --partial to write what is there; kvctl namespace accept-loss " + space.name +
                    " agrees to it for good");
}

}  // namespace tidepool::stage
