// State of the node that its services share. daemon/node/node fills it during the start, so a
// service must expect that the node has not joined yet.
//
//   daemon/node/node fills it  ->  [node_state]  ->  services/*, staging
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/config/options.h"
#include "daemon/control/moves_under_way.h"
#include "daemon/control/recovery.h"
#include "daemon/control/residence_cache.h"
#include "daemon/control/saved_registry.h"
#include "daemon/control/stop_signal.h"
#include "daemon/core/core_group.h"
#include "daemon/membership/coordinator.h"
#include "daemon/membership/map_holder.h"
#include "daemon/membership/member.h"
#include "daemon/membership/peer_channels.h"
#include "proto/base/result.h"

namespace tidepool::storage {
class Volume;
}

namespace tidepool::daemon {

class EtcdSession;
class RangeSplitter;
class RequestRouter;

// Thread-safe: fields that change are atomic or have their own lock. Lives as long as the node.
struct NodeState {
  explicit NodeState(const Options& given) : options(given) {}

  const Options options;
  std::vector<OptionValue> option_values;
  // Set before the services start, and constant from then on.
  std::string version;
  std::string uuid;
  std::uint64_t incarnation = 0;
  std::string host;
  std::string control_address;   // host:port of its services, once they listen.
  std::uint64_t started_ns = 0;  // Monotonic.
  std::string metrics_url;       // URL of the metrics and the status page; empty: none.
  CoreGroup* cores = nullptr;
  storage::Volume* volume = nullptr;  // Null: no --nvm-dir.
  RecoverySummary recovery;           // Data that this start has read back.
  RequestRouter* router = nullptr;
  RangeSplitter* splitter = nullptr;
  // Ends the process in good order, soon after the call returns.
  std::function<void(const StopRequest&)> request_stop;

  // Null or unset until the node has joined.
  MapHolder map;  // Map installed in the cores.
  // Null on all nodes but one. With etcd the coordinator changes; a former Coordinator stays valid
  // for longer than any call takes. Use ActingCoordinator.
  std::atomic<Coordinator*> coordinator{nullptr};
  // NodeId of the coordinator that this node knows; kNoNode: no node is elected.
  static constexpr std::uint32_t kNoNode = UINT32_MAX;
  std::atomic<std::uint32_t> coordinator_node{0};
  const EtcdSession* session = nullptr;  // Set before the services start. Null: no etcd.
  std::atomic<Member*> member{nullptr};  // Set after the join.

  PeerChannels peers;
  MovesUnderWay moves;
  SavedRegistry saved;
  ResidenceCache residences;

  bool joined() const { return member.load(std::memory_order_acquire) != nullptr; }
  NodeId self() const {
    return member.load(std::memory_order_acquire)->self();
  }  // Only after the join.

  // Returns the coordinator if it runs here and may act; otherwise null. With etcd it may act only
  // under its lease, so a coordinator that was paused answers nothing in its successor's place.
  Coordinator* ActingCoordinator() const;
  // Returns the coordinator's node; null: no node is elected.
  const placement::Node* CoordinatorNode(const placement::PlacementMap& map) const;
  // Returns kUnavailable with the reason why there is no coordinator.
  Status NoCoordinator() const;

  // Returns the newest map that this node can give: the coordinator's own if it runs here. Null
  // before the join.
  placement::PlacementMapPtr NewestMap();
  // Returns the holder of NewestMap, to wait on.
  MapHolder& NewestHolder();
  // kOk, or kUnavailable: the node is still starting.
  Status CheckJoined() const;
  // Returns kOk, or why `other` cannot be asked although the map shows it as up (see
  // Member::CheckCoordinator).
  Status CheckAnswers(NodeId other) const;

  // Finds a namespace; looks at the coordinator's newest map before it fails.
  // Errors: kNotFound, kUnavailable (not joined).
  Result<std::shared_ptr<const placement::Namespace>> FindNamespace(const std::string& name,
                                                                    Deadline deadline);
};

// Returns "node 2 (host, 10.0.0.7:4410)".
std::string NodeText(const placement::Node& node);

}  // namespace tidepool::daemon
