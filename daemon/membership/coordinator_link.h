// How a node speaks with the coordinator: by a function call on its own node, by gRPC from others.
//
//   membership/member -> [coordinator_link] -> membership/coordinator, or services/cluster_service
//   of another node
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "daemon/membership/coordinator.h"
#include "daemon/membership/peer_channels.h"
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
  // Errors: the same. kUnknown: it may have been changed, or will be; ask again.
  virtual Result<v1::ChangePartitionResponse> ChangePartition(
      const v1::ChangePartitionRequest& request, Deadline deadline) = 0;
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
  Result<v1::ChangePartitionResponse> ChangePartition(const v1::ChangePartitionRequest& request,
                                                      Deadline deadline) override;
  void Close() override;

 private:
  Coordinator& coordinator_;
};

// Where the coordinator serves. Thread-safe.
class CoordinatorFinder {
 public:
  virtual ~CoordinatorFinder() = default;
  // host:port, as long as it is not lost. Errors: as CoordinatorLink's calls.
  virtual Result<std::string> Find(Deadline deadline) = 0;
  // It does not answer there, or is not the coordinator.
  virtual void OnLost(const std::string& address) = 0;
};

// Asks any node of the cluster for the map, whose first node is the embedded coordinator. That may
// come back at another address.
class FinderByMap final : public CoordinatorFinder {
 public:
  // `addresses`: where it, or any node that knows it, may be. Both must be thread-safe and outlive
  // this.
  FinderByMap(PeerChannels* peers, std::function<std::vector<std::string>()> addresses)
      : peers_(*peers), addresses_(std::move(addresses)) {}
  Result<std::string> Find(Deadline deadline) override;
  void OnLost(const std::string& address) override;

 private:
  PeerChannels& peers_;
  const std::function<std::vector<std::string>()> addresses_;
  std::mutex mutex_;
  std::string address_;
};

// The coordinator is another node.
class RemoteLink final : public CoordinatorLink {
 public:
  // `peers` must be thread-safe and outlive the link.
  RemoteLink(PeerChannels* peers, std::unique_ptr<CoordinatorFinder> finder)
      : peers_(*peers), finder_(std::move(finder)) {}
  Result<v1::JoinResponse> Join(const v1::JoinRequest& request, Deadline deadline) override;
  Result<v1::HeartbeatResponse> Heartbeat(const v1::HeartbeatRequest& request,
                                          Deadline deadline) override;
  Status Leave(const v1::LeaveRequest& request, Deadline deadline) override;
  Result<v1::PlacementMap> GetMap(Epoch known, Epoch wait_for, Deadline deadline) override;
  Result<v1::GrantPartitionResponse> GrantPartition(const v1::GrantPartitionRequest& request,
                                                    Deadline deadline) override;
  Result<v1::ChangePartitionResponse> ChangePartition(const v1::ChangePartitionRequest& request,
                                                      Deadline deadline) override;
  void Close() override;
  // Ends the GetMaps that wait.
  void CancelWaiting();

 private:
  // Runs `call` (context, stub of the service) on the coordinator.
  template <typename Service = v1::Cluster, typename Call>
  Status Run(Deadline deadline, Call call);

  PeerChannels& peers_;
  const std::unique_ptr<CoordinatorFinder> finder_;
  std::mutex mutex_;
  std::set<grpc::ClientContext*> waiting_;  // Of the GetMaps in progress.
  bool closed_ = false;
};

// The coordinator is whichever node is elected, maybe this one, and not for ever.
class ElectedLink final : public CoordinatorLink {
 public:
  // `here`: the coordinator, while it is in this process; it must outlive any call.
  ElectedLink(std::function<Coordinator*()> here, PeerChannels* peers,
              std::unique_ptr<CoordinatorFinder> finder)
      : here_(std::move(here)), remote_(peers, std::move(finder)) {}
  Result<v1::JoinResponse> Join(const v1::JoinRequest& request, Deadline deadline) override;
  Result<v1::HeartbeatResponse> Heartbeat(const v1::HeartbeatRequest& request,
                                          Deadline deadline) override;
  Status Leave(const v1::LeaveRequest& request, Deadline deadline) override;
  Result<v1::PlacementMap> GetMap(Epoch known, Epoch wait_for, Deadline deadline) override;
  Result<v1::GrantPartitionResponse> GrantPartition(const v1::GrantPartitionRequest& request,
                                                    Deadline deadline) override;
  Result<v1::ChangePartitionResponse> ChangePartition(const v1::ChangePartitionRequest& request,
                                                      Deadline deadline) override;
  void Close() override;
  // Another node is elected: who waits for the former one's next map may wait for ever.
  void OnElected() { remote_.CancelWaiting(); }

 private:
  const std::function<Coordinator*()> here_;
  RemoteLink remote_;
};

}  // namespace tidepool::daemon
