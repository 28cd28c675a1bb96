// Dependencies of the router and its calls on their node.
//
//   daemon/node/node -> [router_context] -> routing/request_router, routing/peer_calls
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <functional>
#include <memory>

#include "daemon/core/core_group.h"
#include "proto/placement/placement_map.h"

namespace tidepool::daemon {

// All callables are thread-safe.
struct RouterContext {
  CoreGroup* cores = nullptr;
  std::function<placement::PlacementMapPtr()> map;
  std::function<NodeId()> self;
  // Return a channel to a peer, and the credentials of a call on it.
  std::function<std::shared_ptr<grpc::Channel>(const placement::Node&)> channel;
  std::function<void(grpc::ClientContext&)> authorize;
  // Returns why a node that the map shows as up does not answer, or kOk. May be empty.
  std::function<Status(NodeId)> check_answers;
  // Asks the coordinator for a newer map than `known`; returns at the deadline at the latest.
  std::function<void(Epoch known, Deadline deadline)> refresh_map;
  // Fetches the coordinator's present map without waiting for a newer one. May be empty.
  std::function<void(Deadline deadline)> sync_map;
};

}  // namespace tidepool::daemon
