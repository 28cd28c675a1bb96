// The coordinator of this node, while this node is the coordinator, and the thread that keeps it
// going: ticks, the connection file, and with etcd the elections.
//
//   daemon/node/node -> [election_loop] -> membership/{coordinator,etcd_session}, connection_file
//
// Without etcd the node that begins the cluster is its coordinator for good. With etcd the thread
// runs on each node: it follows the election, is a candidate, leads and steps down.
//
// Invariants:
//   1. coordinator() is null exactly if there is no store: both begin and end together.
//   2. With etcd, tenure() is the election that the store saves under; 0 exactly if coordinator()
//   is
//      null.
//   3. The services see a coordinator (NodeState::coordinator) only between its Open and StepDown.
//      Objects of a former tenure live for an hour longer, since calls may still use them.
//   4. After Start only the loop's thread changes the coordinator, until Stop has returned.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/control/node_state.h"
#include "daemon/control/stop_signal.h"
#include "daemon/membership/cluster_store.h"
#include "daemon/membership/coordinator.h"
#include "daemon/membership/coordinator_link.h"
#include "daemon/membership/etcd_session.h"
#include "daemon/node/connection_file.h"
#include "daemon/node/election_finder.h"

namespace tidepool::daemon {

// How the loop takes part in elections. All null or empty without etcd.
struct ElectionContext {
  EtcdSession* session = nullptr;
  etcd::Client* etcd = nullptr;
  std::string prefix;                // Prefix of the cluster's keys.
  std::vector<std::string> members;  // UUIDs of the cluster's nodes when this node started.
};

// Open, Serve and Start from one thread, in this order; then Stop, then End. Other calls: any
// thread.
class ElectionLoop {
 public:
  // `state`, `file` and what `context` names must outlive the object. After Start only the loop
  // uses `file`, until Stop.
  ElectionLoop(NodeState* state, ConnectionFile* file, ElectionContext context);
  ~ElectionLoop();  // Stops.
  ElectionLoop(const ElectionLoop&) = delete;
  ElectionLoop& operator=(const ElectionLoop&) = delete;

  // Makes this node the coordinator over `store`. `election`: number of the won election; 0 without
  // etcd. Errors: those of Coordinator::Open.
  Status Open(std::unique_ptr<ClusterStore> store, std::int64_t election);
  // Undoes Open: another starter has won the race for the connection file. `retire`: the cluster
  // was new, so its state goes. Errors: those of ClusterStore::Retire; the coordinator then stays.
  Status Abandon(bool retire);
  // Shows the coordinator to the services.
  void Serve();

  // Starts the thread of a coordinator without etcd. Errors: kResourceExhausted.
  Status Start();
  // With etcd: makes the link by which this node speaks with whichever node is elected. Once.
  std::unique_ptr<CoordinatorLink> MakeLink();
  // With etcd, after MakeLink: looks at the election once, then starts the thread. `cluster_uuid`:
  // the cluster whose state this node may serve. Errors: kResourceExhausted.
  Status StartElections(const std::string& cluster_uuid, bool may_be_elected);
  // Lets the node be a candidate, or ends its candidacy.
  void SetCandidate(bool may_be_elected) { may_be_elected_ = may_be_elected; }

  // Records in NodeState which node of `map` is the coordinator. Any thread.
  void NumberCoordinator(const placement::PlacementMap& map);

  // Ends the thread. The coordinator stays.
  void Stop();
  // Ends the maps of the coordinator, so that no call waits for the next one. After Stop.
  void Close();
  // Closes, and removes the connection file if the cluster ends with this node: all nodes have
  // left, or `whole_cluster`. `keep_state`: the state stays where it is. After Stop.
  void End(bool whole_cluster, bool keep_state);

  // Null: this node is not the coordinator. Before Start or after Stop.
  Coordinator* coordinator() { return coordinator_.get(); }
  std::int64_t tenure() const { return tenure_; }

 private:
  bool by_election() const { return election_.session != nullptr; }
  CoordinatorOptions MakeCoordinatorOptions() const;
  bool WaitForTurn();
  void RunCoordinator();
  void RunElections();
  void LookAtElection();
  bool IsFirstChoice(Deadline deadline);
  void OnElected(const std::optional<ElectedNode>& elected);
  void LeadOrFollow();
  Status BecomeCoordinator(std::int64_t election);
  void StepDown();
  void Announce();

  // Objects that this node was the coordinator with.
  struct FormerTenure {
    std::unique_ptr<ClusterStore> store;
    std::unique_ptr<Coordinator> coordinator;
    std::uint64_t ended_ns = 0;
  };

  NodeState& state_;
  const Options& options_;
  ConnectionFile& file_;
  const ElectionContext election_;
  std::string cluster_uuid_;  // With etcd: the one cluster whose state this node serves.

  std::vector<FormerTenure> former_tenures_;
  std::unique_ptr<ClusterStore> store_;
  std::unique_ptr<Coordinator> coordinator_;
  std::int64_t tenure_ = 0;
  bool is_announced_ = false;  // etcd names the address of this coordinator.

  ElectedLink* link_ = nullptr;       // Owned by the caller of MakeLink.
  ElectionFinder* finder_ = nullptr;  // Owned by the link.
  std::atomic<bool> may_be_elected_{false};
  StopSignal stop_;
  std::thread thread_;
};

}  // namespace tidepool::daemon
