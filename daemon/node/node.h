// One daemon, put together: its bootstrap, cores, services, membership and elections; and taken
// apart again.
//
//   daemon/kvd -> [node] -> {bootstrap, connection_file, election_loop, node_services, cluster_end}
//
// Invariants:
//   1. Cores have read back what the devices keep before the port opens.
//   2. The coordinator's books name this node before the connection file does, and the file before
//      the cores have a map: a starter that loses the race for the file has opened nothing.
//   3. A destroyed or drained node has no thread left that could call a part of it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/control/node_state.h"
#include "daemon/control/stop_signal.h"
#include "daemon/core/core_group.h"
#include "daemon/core/lease.h"
#include "daemon/membership/coordinator_link.h"
#include "daemon/membership/member.h"
#include "daemon/node/bootstrap.h"
#include "daemon/node/connection_file.h"
#include "daemon/node/election_loop.h"
#include "daemon/node/node_services.h"
#include "proto/cluster_file/loss_record.h"
#include "proto/transport/transport.h"
#include "proto/wire/aggregator.h"

namespace tidepool::daemon {

// Start, WaitFormed and Drain from one thread, in this order.
class Node {
 public:
  // Starts everything and joins or begins the cluster. `stop` must outlive the node; a request ends
  // a start that waits. `make_aggregator` makes the object that forwards operations of this
  // machine's clients. Errors: one clear line per cause; kCancelled (a stop was requested).
  static Result<std::unique_ptr<Node>> Start(const LoadedOptions& loaded, StopSignal* stop,
                                             const wire::AggregatorMaker& make_aggregator);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // Waits until all expected nodes have joined, then reports health. False if a stop came first.
  bool WaitFormed();

  // "node 0 of 3 at 127.0.0.1:4410, cluster file /tmp/x.json"
  std::string Describe();

  // Returns the namespaces with records here that are neither staged out nor durable. Any thread,
  // between WaitFormed and Drain; takes at most about a second.
  std::vector<cluster_file::LostNamespace> FindLosses();

  // Leaves in good order: reports to the coordinator, answers calls in progress, and, as the last
  // node of a cluster, removes the connection file. `reason` names the cause of the end ("SIGTERM")
  // for the record of lost data.
  void Drain(const StopRequest& request, const std::string& reason);

 private:
  Node(const LoadedOptions& loaded, StopSignal* stop);
  wire::AggregatorOptions MakeAggregatorOptions();

  // Steps of Start, in order:
  Status Run();
  Status OpenIdentity();
  Status Prepare();  // Steps that other nodes do not notice:
  Status Decide();
  Status StartNetwork();
  Status ReadBack();
  Status StartServices();
  Status BeginCluster();  // kFirst, kReturn.
  Status JoinCluster();   // In node_membership.cc, as the rest:
  Status ServeElected();  // With etcd, the rest of BeginCluster and of JoinCluster.
  Status JoinWith(std::unique_ptr<CoordinatorLink> link, const std::string& cluster);
  Status InstallMap(placement::PlacementMapPtr map, NodeId self);

  v1::JoinRequest MakeJoinRequest(const std::string& cluster_uuid);
  std::vector<std::string> CoordinatorAddresses();
  Result<std::string> TokenToJoin();
  Result<std::string> TokenByMunge();
  void UseToken(const std::string& token);

  // Steps of Drain:
  void RecordLosses(const StopRequest& request, const std::string& reason);
  std::vector<NamespaceId> NothingToLose(bool loss_agreed);
  void CloseDevices();
  void WriteSummary(const std::string& summary);

  const LoadedOptions loaded_;
  const Options& options_;
  StopSignal& stop_;
  NodeState state_;
  Lease lease_;
  Bootstrap bootstrap_;  // Outlives the cores, which have queues on its devices.
  std::unique_ptr<transport::Context> context_;
  std::unique_ptr<wire::Aggregator> aggregator_;
  std::unique_ptr<CoreGroup> cores_;
  NodeServices services_;
  std::string token_;
  std::optional<ConnectionFile> file_;    // None until the identity is open.
  std::optional<ElectionLoop> election_;  // None until the identity is open.
  std::unique_ptr<CoordinatorLink> link_;
  std::unique_ptr<Member> member_;
};

}  // namespace tidepool::daemon
