// How a node speaks with the coordinator: by a function call on its own node, by gRPC from others.
//
//   membership/member -> [coordinator_link] -> membership/coordinator, or services/cluster_service
//   of another node
#pragma once

#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "daemon/membership/coordinator.h"
#include "daemon/peer_channels.h"
#include "proto/base/clock.h"
#include "tidepool/v1/cluster.grpc.pb.h"

namespace tidepool::daemon {

// Thread-safe. Errors of all calls: those of Coordinator, and kUnavailable, kDeadlineExceeded,
// kUnauthenticated when it cannot be reached or is another's.
class CoordinatorLink {
 public:
  virtual ~CoordinatorLink() = default;
  virtual Result<v1::JoinResponse> Join(const v1::JoinRequest& request, Deadline deadline) = 0;
  virtual Result<v1::HeartbeatResponse> Heartbeat(const v1::HeartbeatRequest& request,
                                                  Deadline deadline) = 0;
  virtual Status Leave(const v1::LeaveRequest& request, Deadline deadline) = 0;
  // The map as soon as its epoch is at least `wait_for`, or whatever it is at the deadline.
  virtual Result<v1::PlacementMap> GetMap(Epoch known, Epoch wait_for, Deadline deadline) = 0;
  // Errors: as said above, and kUnknown: it may have been granted, or will be; ask again.
  virtual Result<v1::GrantPartitionResponse> GrantPartition(
      const v1::GrantPartitionRequest& request, Deadline deadline) = 0;
  // Ends calls that wait, and refuses later GetMaps.
  virtual void Close() = 0;
};

// The coordinator runs in this process. It must outlive the link.
class LocalLink final : public CoordinatorLink {
 public:
  explicit LocalLink(Coordinator* coordinator) : coordinator_(*coordinator) {}
  Result<v1::JoinResponse> Join(const v1::JoinRequest& request, Deadline deadline) override;
  Result<v1::HeartbeatResponse> Heartbeat(const v1::HeartbeatRequest& request,
                                          Deadline deadline) override;
  Status Leave(const v1::LeaveRequest& request, Deadline deadline) override;
  Result<v1::PlacementMap> GetMap(Epoch known, Epoch wait_for, Deadline deadline) override;
  Result<v1::GrantPartitionResponse> GrantPartition(const v1::GrantPartitionRequest& request,
                                                    Deadline deadline) override;
  void Close() override;

 private:
  Coordinator& coordinator_;
};

// The coordinator is another node. It may come back at another address: when it cannot be reached,
// `addresses` is asked again where it, or any node that knows it, may be.
class RemoteLink final : public CoordinatorLink {
 public:
  // `addresses` and `peers` must be thread-safe and outlive the link.
  RemoteLink(PeerChannels* peers, std::function<std::vector<std::string>()> addresses)
      : peers_(*peers), addresses_(std::move(addresses)) {}
  Result<v1::JoinResponse> Join(const v1::JoinRequest& request, Deadline deadline) override;
  Result<v1::HeartbeatResponse> Heartbeat(const v1::HeartbeatRequest& request,
                                          Deadline deadline) override;
  Status Leave(const v1::LeaveRequest& request, Deadline deadline) override;
  Result<v1::PlacementMap> GetMap(Epoch known, Epoch wait_for, Deadline deadline) override;
  Result<v1::GrantPartitionResponse> GrantPartition(const v1::GrantPartitionRequest& request,
                                                    Deadline deadline) override;
  void Close() override;

  // Where the coordinator was last found, or "".
  std::string address() const;

 private:
  // Asks each known address for the map, whose first node is the coordinator.
  Status Locate(Deadline deadline);
  // Runs `call` (context, stub of the service) on the coordinator, locating it first where needed.
  template <typename Service = v1::Cluster, typename Call>
  Status Run(Deadline deadline, Call call);

  PeerChannels& peers_;
  const std::function<std::vector<std::string>()> addresses_;
  mutable std::mutex mutex_;
  std::string address_;
  std::set<grpc::ClientContext*> waiting_;  // Of the GetMaps in progress.
  bool closed_ = false;
};

}  // namespace tidepool::daemon
