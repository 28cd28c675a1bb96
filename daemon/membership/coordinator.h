// The role that makes membership and epochs: admits nodes, notices that they are gone, gives
// namespaces and terms, and publishes each new placement map after it is durable.
//
//   services/cluster_service, namespaces_service, membership/member -> [coordinator] ->
//   cluster_store
//
// Rules:
//   1. What is published is durable first; so a coordinator that comes back never takes back an
//   epoch,
//      a term or a namespace id.
//   2. A term is given once: each grant of a partition raises it, restarts of its owner included.
//   3. Without replicas an owner is never replaced. Its partitions are down while it is, and come
//      back to the same UUID only; what they held is lost when its incarnation changed. With
//      replicas an in-sync copy replaces an owner that is certainly gone: see replica_rules.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/membership/cluster_store.h"
#include "daemon/membership/entry_change.h"
#include "daemon/membership/map_holder.h"
#include "daemon/membership/range_rules.h"
#include "proto/base/clock.h"
#include "tidepool/v1/cluster.pb.h"
#include "tidepool/v1/moves.pb.h"

namespace tidepool::daemon {

struct CoordinatorOptions {
  std::uint32_t nodes_expected = 1;
  bool nodes_given = false;  // Then a saved state of another number is refused.
  std::uint32_t lease_ms = 5000;
  std::uint32_t heartbeat_ms = 1000;
  std::string store = "embedded";  // What members must say that they were started with.
  // Pause before a partition gets another copy whose owner has dropped one of a living process.
  std::uint32_t repair_after_ms = 10'000;
};

struct CreateOutcome {
  std::shared_ptr<const placement::Namespace> space;
  bool created = false;  // False: it existed with equal options.
  Epoch epoch;
};

struct AcceptOutcome {
  std::uint32_t partitions_accepted = 0;
  Epoch epoch;
};

// Thread-safe. Every call that changes the state waits for the store (one fsync), heartbeats of
// known nodes do not.
class Coordinator {
 public:
  // Goes on with what `store` holds, or begins a new cluster (saved at the first join). `store` and
  // `clock` must outlive it.
  // Errors: kFailedPrecondition (the state is of another number of nodes), those of Load.
  static Result<std::unique_ptr<Coordinator>> Open(ClusterStore* store,
                                                   const CoordinatorOptions& options,
                                                   const Clock& clock = Clock::Real());

  const std::string& cluster_uuid() const { return cluster_uuid_; }
  // Published maps. Never null after the first join.
  MapHolder& map() { return published_; }

  // Admits a new node while the cluster is forming, or a known one with a greater incarnation.
  // Asking again with the same incarnation gives the same answer. Errors: kFailedPrecondition (a
  // stranger, a copy, an incarnation that is not greater, another cluster or version, durable data
  // of another cluster, or no device where it has durable data),
  // kUnavailable (the folder was moved or copied, and the node counts as up: ask again, until it is
  // down or another folder is found alive), kInvalidArgument (malformed), kResourceExhausted, those
  // of Save. `is_own`: the node that runs this coordinator asks for itself, before it serves.
  Result<v1::JoinResponse> Join(const v1::JoinRequest& request, bool is_own = false);

  // Errors: kFailedPrecondition (superseded, or it left: it must stop serving), kNotFound (no such
  // node), those of Save when the node was down.
  Result<v1::HeartbeatResponse> Heartbeat(const v1::HeartbeatRequest& request);

  // Errors: as Heartbeat.
  Status Leave(const v1::LeaveRequest& request);

  // Marks nodes down whose heartbeats are missing for a lease, unless the store knows that they
  // live. If the store hears of deaths, it is asked after two heartbeats. Call it every heartbeat
  // or so.
  void Tick();

  // Waits while the cluster is forming. `options.partitions` 0 means four per core.
  // Errors: kAlreadyExists (with other options or kind, naming the differences), kUnimplemented,
  // kInvalidArgument, kFailedPrecondition (it is to be durable, and a node has no device),
  // kUnavailable (still forming at the deadline, or no node is up),
  // kResourceExhausted (ids), those of Save.
  Result<CreateOutcome> CreateNamespace(std::string_view name, placement::Kind kind,
                                        placement::NamespaceOptions options, Deadline deadline);
  // Errors: kNotFound, kFailedPrecondition (`default` always exists), those of Save.
  Result<Epoch> DropNamespace(std::string_view name);
  // Lost partitions of nodes that are up serve again, empty, under a new term.
  // Errors: kNotFound, kResourceExhausted (terms), kFailedPrecondition (it is durable, and an owner
  // has come back without a device), those of Save.
  Result<AcceptOutcome> AcceptLoss(std::string_view name);

  // Gives a partition, by a new term, from one owner to another who has all that it holds; or to
  // the same one again, so that no other gets it by the old term. Of the grants that name a term as
  // the one that they replace at most one is given, so whoever asks again learns what has become of
  // it. Errors: kUnknown (it may be durable or not; ask again). All else is in the answer.
  Result<v1::GrantPartitionResponse> GrantPartition(const v1::GrantPartitionRequest& request);
  // Changes a partition's entry: its copies, or its owner by a hand-over. Only an entry of the
  // named term and version is changed, so whoever gets no answer asks again, and learns the entry
  // from each answer. Errors: kUnknown (it may be durable or not; ask again). All else is in the
  // answer.
  Result<v1::ChangePartitionResponse> ChangePartition(const v1::ChangePartitionRequest& request);
  // Makes two ranges known where there was one. Asking again gives the same answer.
  // Errors: as SplitRange, kNotFound (the namespace was dropped), those of Save.
  Result<Epoch> SplitPartition(const RangeSplit& split);

  // Wall clock of each node's last heartbeat, index = NodeId.
  std::vector<std::uint64_t> LastHeartbeatsMs() const;

 private:
  static Epoch After(Epoch epoch) { return Epoch(epoch.value() + 1); }

  // What heartbeats touch, apart from the state so that they never wait for a disk.
  struct Liveness {
    std::uint64_t incarnation = 0;
    std::uint64_t heard_ns = 0;
    std::uint64_t heard_wall_ms = 0;
    bool up = false;
    std::vector<std::uint64_t> progress;
    std::uint64_t progress_ns = 0;  // When each core was last seen to go on.
    bool stuck_logged = false;
    std::uint64_t moved_asked_ns = 0;  // When a moved folder first asked to be this node; 0: none.
  };

  Coordinator(ClusterStore* store, const CoordinatorOptions& options, const Clock& clock);

  // With state_mutex_ held:
  Status Commit(ClusterState next);
  void Publish();
  // Saves and logs that the nodes, whose liveness is taken already, are down.
  void MarkDown(const std::vector<NodeId>& nodes, const std::string& why);
  void Suspect(NodeId id, std::uint64_t incarnation);
  void PauseAfterDrop(PartitionId id, const std::vector<EntryStep>& steps);
  std::set<PartitionId> PausedRepairs();
  void RepairReplicas();
  Status CheckReplicas(const placement::NamespaceOptions& options) const;
  Status CheckTarget(const v1::GrantPartitionRequest& request) const;
  Result<NodeId> Admit(const v1::JoinRequest& request, ClusterState* next) const;
  Status Readmit(const v1::JoinRequest& request, NodeId id, bool is_own, ClusterState* next);
  Status CheckFolder(const v1::JoinRequest& request, NodeId id, bool is_own);
  Status CheckNotAlive(const v1::JoinRequest& request, NodeId id, bool is_own);
  Status BringUp(NodeId node);
  std::uint64_t SilenceMs() const;
  void ExceptThoseKnownAlive(std::vector<NodeId>* silent);
  void AddDefaultNamespace(ClusterState* next) const;

  Status CheckHeartbeat(std::uint32_t node, std::uint64_t incarnation) const;  // liveness_mutex_
  void NoteProgress(const v1::HeartbeatRequest& request, Liveness* liveness);
  void SetAlive(NodeId node, std::uint64_t incarnation);

  ClusterStore& store_;
  const CoordinatorOptions options_;
  const Clock& clock_;
  std::string cluster_uuid_;
  MapHolder published_;

  std::mutex state_mutex_;  // Taken before liveness_mutex_ where both are needed.
  ClusterState state_;
  mutable std::mutex liveness_mutex_;
  std::vector<Liveness> liveness_;  // Index = NodeId.
  std::uint64_t last_tick_ns_ = 0;
  std::map<PartitionId, std::uint64_t> repair_not_before_ns_;
};

}  // namespace tidepool::daemon
