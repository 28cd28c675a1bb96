#include "proto/stage/cluster.h"

namespace tidepool::stage {

std::string Describe(const placement::Node& node) {
  return "node " + std::to_string(node.id.value()) + " (" + node.host + " " + node.control_address +
         ")";
}

}  // namespace tidepool::stage
