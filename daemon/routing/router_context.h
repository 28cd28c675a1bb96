// What the router and its calls need of their node.
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
  // A channel to a peer, and what makes a call on it authentic.
  std::function<std::shared_ptr<grpc::Channel>(const placement::Node&)> channel;
  std::function<void(grpc::ClientContext&)> authorize;
  // Why a node that the map has for up is known not to answer, or kOk. May be empty.
  std::function<Status(NodeId)> check_answers;
  // Asks the coordinator for a newer map than `known`; returns at the deadline at the latest.
  std::function<void(Epoch known, Deadline deadline)> refresh_map;
  // Brings the map that the coordinator has now, without waiting for a newer one. May be empty.
  std::function<void(Deadline deadline)> sync_map;
};

}  // namespace tidepool::daemon
