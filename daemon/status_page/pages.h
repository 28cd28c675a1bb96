// What is served at which path: metrics, the status page, and what that shows.
//
//   status_page/listener -> [pages] -> services/{node_status,cluster_status},
//   metrics/prometheus_text
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/control/node_state.h"
#include "daemon/status_page/listener.h"

namespace tidepool::daemon {

// One thread. `node` must outlive it.
class Pages {
 public:
  explicit Pages(NodeState* node) : node_(*node) {}

  // A look at the cores at most four times a second, however often it is asked.
  PageAnswer Answer(std::string_view path);

 private:
  struct Kept {
    std::uint64_t at_ns = 0;  // 0: never.
    std::string body;
  };
  PageAnswer Metrics();
  PageAnswer ClusterStatus();

  NodeState& node_;
  Kept metrics_;
  Kept status_;
};

}  // namespace tidepool::daemon
