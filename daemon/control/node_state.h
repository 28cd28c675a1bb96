// What the services know of their node. Filled by daemon/node/node while it starts; services must
// expect that the node has not joined yet.
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

// Thread-safe: what is not const by nature is atomic or locks itself. Lives as long as the node.
struct NodeState {
  explicit NodeState(const Options& given) : options(given) {}

  const Options options;
  std::vector<OptionValue> option_values;
  // Set before the services start, and constant then.
  std::string version;
  std::string uuid;
  std::uint64_t incarnation = 0;
  std::string host;
  std::string control_address;   // host:port of its services, once they listen.
  std::uint64_t started_ns = 0;  // Monotonic.
  std::string metrics_url;       // Where its metrics and its status page are; empty: nowhere.
  CoreGroup* cores = nullptr;
  storage::Volume* volume = nullptr;  // Null: no --nvm-dir.
  RecoverySummary recovery;           // What this start has read back.
  RequestRouter* router = nullptr;
  RangeSplitter* splitter = nullptr;
  // Ends the process in good order, soon after the call returns.
  std::function<void(const StopRequest&)> request_stop;

  // Null or unset until the node has joined.
  MapHolder map;  // What is installed in the cores.
  // Null on all nodes but one; with etcd not always the same one, and what it was once stays valid
  // for longer than any call takes. Use ActingCoordinator.
  std::atomic<Coordinator*> coordinator{nullptr};
  // The NodeId of the coordinator as far as this node knows; kNoNode: none is elected.
  static constexpr std::uint32_t kNoNode = UINT32_MAX;
  std::atomic<std::uint32_t> coordinator_node{0};
  const EtcdSession* session = nullptr;  // Set before the services start. Null: no etcd.
  std::atomic<Member*> member{nullptr};  // Set when it has joined.

  PeerChannels peers;
  MovesUnderWay moves;
  SavedRegistry saved;
  ResidenceCache residences;

  bool joined() const { return member.load(std::memory_order_acquire) != nullptr; }
  NodeId self() const { return member.load(std::memory_order_acquire)->self(); }  // If joined.

  // The coordinator, if it is here and may act: with etcd only under its lease, so that one that
  // was paused answers nothing for the next one.
  Coordinator* ActingCoordinator() const;
  // The node that is the coordinator; null: none is elected.
  const placement::Node* CoordinatorNode(const placement::PlacementMap& map) const;
  // For who needs it. kUnavailable, saying why.
  Status NoCoordinator() const;

  // The newest map that this node can give: the coordinator's own, if it is here. Null before it
  // has joined.
  placement::PlacementMapPtr NewestMap();
  // The holder of NewestMap, to wait on.
  MapHolder& NewestHolder();
  // kOk, or kUnavailable: the node is still starting.
  Status CheckJoined() const;
  // Why this other node cannot be asked though the map has it for up, see Member::CheckCoordinator;
  // or kOk.
  Status CheckAnswers(NodeId other) const;

  // Looks again at the coordinator's newest map before it says no.
  // Errors: kNotFound, kUnavailable (not joined).
  Result<std::shared_ptr<const placement::Namespace>> FindNamespace(const std::string& name,
                                                                    Deadline deadline);
};

// "node 2 (host, 10.0.0.7:4410)".
std::string NodeText(const placement::Node& node);

}  // namespace tidepool::daemon
