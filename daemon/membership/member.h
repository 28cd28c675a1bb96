// This node as a member of the cluster: joins, keeps the lease by heartbeats, brings new placement
// maps to the cores.
//
//   coordinator_link  <->  [membership/member]  ->  lease, core_group.InstallMap, map_holder
//
// The lease counts from when a renewal was *sent*. A node that cannot reach the coordinator extends
// its own lease: with the embedded coordinator nobody else can be given its partitions, since only
// the holder of the same data folder could come in its place. With etcd the lease is
// etcd_session's, and is told of the coordinator's answers only. A node that is *told* that it was
// superseded stops serving at once.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "daemon/core/lease.h"
#include "daemon/membership/coordinator_link.h"
#include "daemon/membership/map_holder.h"

namespace tidepool::daemon {

struct MemberCallbacks {
  // Brings a map to the cores; called for one map at a time, in order.
  std::function<Status(placement::PlacementMapPtr, NodeId)> install;
  // The loops' counters, for the heartbeat.
  std::function<std::vector<std::uint64_t>()> progress;
  // After the coordinator's refusal: the node must end. Called once, on a thread of the member.
  std::function<void(const Status&)> fenced;
  // Given: somebody else keeps the lease, who is told when what the coordinator has answered was
  // sent. Not given: the member extends it.
  std::function<void(std::uint64_t sent_ns)> answered;
};

// Thread-safe. Join once, then Start once; Stop (or the destructor) ends both threads.
class Member {
 public:
  // All pointers must outlive the member. `map` receives what is installed.
  Member(CoordinatorLink* link, Lease* lease, MapHolder* map, MemberCallbacks callbacks);
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  // Tries until the deadline or Stop, as long as the coordinator cannot be reached.
  // Errors: those of Coordinator::Join, kUnavailable or kDeadlineExceeded (not reached),
  // kUnauthenticated, kCancelled (stopped), those of `install`.
  Result<NodeId> Join(const v1::JoinRequest& request, Deadline deadline);
  // Errors: kResourceExhausted (no thread); Stop may be called all the same.
  Status Start();
  // Ends a Join that waits, without waiting for anything itself. For a hook of another thread.
  void Interrupt();
  // Ends the threads. The lease runs out by itself, or at once with Leave.
  void Stop();

  // Gives the lease up and says goodbye. After Stop. `empty_namespaces`: this node loses nothing of
  // them.
  Status Leave(const std::vector<NamespaceId>& empty_namespaces, Deadline deadline);

  // Asks the coordinator for a newer map than `known` and installs it. Returns when there is one,
  // or after a fifth of a second or at the deadline: whoever was refused may have been ahead of the
  // refuser, and had better ask that one again.
  void Refresh(Epoch known, Deadline deadline);
  // Installs the map that the coordinator has now, without waiting for a newer one. For what is not
  // found here but may have just been made.
  void Sync(Deadline deadline);

  // Asks the coordinator for a partition: see Coordinator::GrantPartition and CoordinatorLink.
  Result<v1::GrantPartitionResponse> GrantPartition(const v1::GrantPartitionRequest& request,
                                                    Deadline deadline) {
    return link_.GrantPartition(request, deadline);
  }

  // Asks the coordinator for a change of a partition's entry: see Coordinator::ChangePartition.
  Result<v1::ChangePartitionResponse> ChangePartition(const v1::ChangePartitionRequest& request,
                                                      Deadline deadline) {
    return link_.ChangePartition(request, deadline);
  }

  NodeId self() const { return self_; }  // After Join.

  // kOk, or kUnavailable: `coordinator` has answered no heartbeat for longer than two leases. The
  // map then still says that its node is up, as nobody else may change the map.
  Status CheckCoordinator(const placement::Node& coordinator) const;

 private:
  Status Install(const v1::PlacementMap& message);
  void RunHeartbeats();
  void RunMaps();
  void SendHeartbeat();
  void OnAnswered(std::uint64_t sent_ns, std::uint64_t lease_ms);
  // False when stopped meanwhile.
  bool SleepMs(std::uint64_t ms);

  CoordinatorLink& link_;
  Lease& lease_;
  MapHolder& map_;
  const MemberCallbacks callbacks_;
  NodeId self_;
  std::uint64_t incarnation_ = 0;
  std::uint64_t lease_ms_ = 0;
  std::uint64_t heartbeat_ms_ = 0;
  std::atomic<std::uint64_t> heard_ns_{0};  // When the last one that was answered was sent.
  bool is_reached_ = true;                  // Of the heartbeats' thread: to log changes only.
  bool is_fenced_ = false;                  // The same.

  std::mutex install_mutex_;
  std::mutex stop_mutex_;
  std::condition_variable stop_wake_;
  bool stopping_ = false;
  std::thread heartbeats_;
  std::thread maps_;
};

}  // namespace tidepool::daemon
