// Brings operations that came over gRPC to the owners of their keys, on this node or another.
//
//   services/data_service, services/bulk_service -> [request_router] -> core_group, or
//   routing/peer_calls
#pragma once

#include <memory>
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

  // Errors: kInvalidArgument (no namespace can have this name), kNotFound (no such namespace,
  // naming those that there are), kUnavailable (forming).
  Result<std::shared_ptr<const placement::Namespace>> FindNamespace(std::string_view name) const;
  // The same for what only the kinds `needs` have. Errors: also as WrongKind.
  Result<std::shared_ptr<const placement::Namespace>> FindNamespaceFor(std::string_view name,
                                                                       std::string_view doing,
                                                                       KindMask needs) const;

  // Runs operations on any keys of one namespace, in order per key; each gets an outcome. All
  // owners work at once; one that does not answer costs only its own keys, which end a little
  // before the deadline, so that the others' outcomes still reach the caller. Refusals because of
  // an old map are retried within the deadline. Keys and values must outlive the call. Values above
  // `value_bytes_max`, and those that exceed kCallAnswerBytesMax together, are left out; operations
  // that would take such a value away leave it, and end as kOutOfRange.
  std::vector<OperationOutcome> Execute(std::string_view space,
                                        const std::vector<wire::Operation>& operations,
                                        std::size_t value_bytes_max, Deadline deadline);
  OperationOutcome ExecuteOne(std::string_view space, const wire::Operation& operation,
                              std::size_t value_bytes_max, Deadline deadline);

  // Operations without a key, on one partition. One try: the caller knows what to do. `is_users`:
  // as CoreGroup::Execute, on this node.
  Result<std::vector<OperationOutcome>> ExecuteAt(const placement::Namespace& space,
                                                  std::uint32_t partition,
                                                  const std::vector<wire::Operation>& operations,
                                                  std::size_t value_bytes_max, Deadline deadline,
                                                  bool is_users = true);

  // Why `place` cannot serve now, or kOk.
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
