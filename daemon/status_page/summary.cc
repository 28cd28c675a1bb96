#include "daemon/status_page/summary.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/services/node_status.h"
#include "daemon/status_page/message_json.h"

namespace tidepool::daemon {

std::string MakeSummary(NodeState* node, Deadline deadline) {
  using Json = nlohmann::ordered_json;
  const v1::NodeStatusResponse status = LocalNodeStatus(node, NamespaceId(), deadline);
  const placement::PlacementMapPtr map = node->map.Get();
  std::uint64_t operations = 0;
  for (const v1::CoreStatus& core : status.cores()) operations += core.operations();
  std::uint64_t reads = 0;
  std::uint64_t changes = 0;
  std::uint64_t records = 0;
  for (const v1::NamespaceStatus& space : status.namespaces()) {
    reads += space.reads();
    changes += space.changes();
    records += space.records();
  }
  Json json = {{"cluster_uuid", map == nullptr ? "" : map->cluster_uuid},
               {"node_id", status.node().node_id()},
               {"version", node->version},
               {"started_at_ms", status.at_ms() - status.uptime_ms()},
               {"stopped_at_ms", status.at_ms()},
               {"operations", operations},
               {"reads", reads},
               {"changes", changes},
               {"records", records}};
  const Json all = ToJson(status, /*buckets=*/false);
  for (const auto& [name, value] : all.items()) {
    if (!json.contains(name)) json[name] = value;
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tidepool::daemon
