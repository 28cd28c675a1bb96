// The pages by path: metrics, the status page and its data.
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

  // Returns a page. Reads the cores at most four times a second, however often it is called.
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
