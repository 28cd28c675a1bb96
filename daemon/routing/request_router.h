// Routes gRPC operations to the owners of their keys, on this node or another.
//
//   services/data_service, services/bulk_service -> [request_router] -> core_group, or
//   routing/peer_calls
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/core_group.h"
#include "daemon/routing/router_context.h"
#include "proto/placement/placement_map.h"

namespace tidepool::daemon {

// Thread-safe.
class RequestRouter {
 public:
  explicit RequestRouter(RouterContext context) : context_(std::move(context)) {}

  // Errors: kInvalidArgument (an impossible name), kNotFound (no such namespace; lists the existing
  // namespaces), kUnavailable (forming).
  Result<std::shared_ptr<const placement::Namespace>> FindNamespace(std::string_view name) const;
  // Finds a namespace of one of the kinds `needs`. Errors: also those of WrongKind.
  Result<std::shared_ptr<const placement::Namespace>> FindNamespaceFor(std::string_view name,
                                                                       std::string_view doing,
                                                                       KindMask needs) const;

  // Runs operations on any keys of one namespace, in order per key; returns an outcome for each.
  // All owners work at the same time. An owner that does not answer costs only its own keys: they
  // end a little before the deadline, so that the other outcomes still reach the caller. With
  // `answer_by`, the time until which the caller listens, all owners work until `deadline`. Retries
  // refusals of an old map within the deadline. Keys and values must outlive the call. Omits values
  // above `value_bytes_max`, and values that exceed kCallAnswerBytesMax together. An operation that
  // would remove such a value leaves it and fails with kOutOfRange.
  std::vector<OperationOutcome> Execute(std::string_view space,
                                        const std::vector<wire::Operation>& operations,
                                        std::size_t value_bytes_max, Deadline deadline,
                                        std::optional<Deadline> answer_by = std::nullopt);
  OperationOutcome ExecuteOne(std::string_view space, const wire::Operation& operation,
                              std::size_t value_bytes_max, Deadline deadline,
                              std::optional<Deadline> answer_by = std::nullopt);

  // Runs operations without a key on one partition. Does not retry; the caller decides. `is_users`:
  // as CoreGroup::Execute, on this node.
  Result<std::vector<OperationOutcome>> ExecuteAt(const placement::Namespace& space,
                                                  std::uint32_t partition,
                                                  const std::vector<wire::Operation>& operations,
                                                  std::size_t value_bytes_max, Deadline deadline,
                                                  bool is_users = true);

  // Returns why `place` cannot serve now, or kOk.
  Status CheckPlace(const placement::Namespace& space,
                    const placement::PartitionPlace& place) const;

  const RouterContext& context() const { return context_; }

 private:
  struct Batch;
  void StartPart(Batch* batch, std::uint32_t partition, std::vector<std::size_t> indices,
                 std::size_t answer_bytes_max, bool reserved);
  void StartAll(Batch* batch);

  const RouterContext context_;
};

}  // namespace tidepool::daemon
