// Brings operations that came over gRPC to the owners of their keys, on this node or another.
//
//   services/data_service, services/bulk_service -> [request_router] -> core_group, or Data of a
//   peer
#pragma once

#include <grpcpp/channel.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/core_group.h"
#include "proto/placement/placement_map.h"

namespace tidepool::daemon {

// What the router needs of its node. All callables are thread-safe.
struct RouterContext {
  CoreGroup* cores = nullptr;
  std::function<placement::PlacementMapPtr()> map;
  std::function<NodeId()> self;
  // A channel to a peer, and what makes a call on it authentic.
  std::function<std::shared_ptr<grpc::Channel>(const placement::Node&)> channel;
  std::function<void(grpc::ClientContext&)> authorize;
  // Asks the coordinator for a newer map than `known`; returns at the deadline at the latest.
  std::function<void(Epoch known, Deadline deadline)> refresh_map;
  // Brings the map that the coordinator has now, without waiting for a newer one. May be empty.
  std::function<void(Deadline deadline)> sync_map;
};

// Thread-safe.
class RequestRouter {
 public:
  explicit RequestRouter(RouterContext context) : context_(std::move(context)) {}

  // Errors: kNotFound (no such namespace, naming those that there are), kUnavailable (forming).
  Result<std::shared_ptr<const placement::Namespace>> FindNamespace(std::string_view name) const;

  // Runs operations on any keys of one namespace, in order per key; each gets an outcome. Refusals
  // because of an old map are retried within the deadline. Keys and values must outlive the call.
  std::vector<OperationOutcome> Execute(std::string_view space,
                                        const std::vector<wire::Operation>& operations,
                                        std::size_t value_bytes_max, Deadline deadline);
  OperationOutcome ExecuteOne(std::string_view space, const wire::Operation& operation,
                              std::size_t value_bytes_max, Deadline deadline);

  // Operations without a key, on one partition. One try: the caller knows what to do.
  Result<std::vector<OperationOutcome>> ExecuteAt(const placement::Namespace& space,
                                                  std::uint32_t partition,
                                                  const std::vector<wire::Operation>& operations,
                                                  std::size_t value_bytes_max, Deadline deadline);

  // Why `place` cannot serve now, or kOk.
  Status CheckPlace(const placement::Namespace& space,
                    const placement::PartitionPlace& place) const;

  const RouterContext& context() const { return context_; }

 private:
  Result<std::vector<OperationOutcome>> Forward(const placement::Namespace& space,
                                                std::uint32_t partition,
                                                const std::vector<wire::Operation>& operations,
                                                std::size_t value_bytes_max, Deadline deadline);

  const RouterContext context_;
};

}  // namespace tidepool::daemon
