#include "daemon/services/request_router.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "daemon/services/operation_convert.h"
#include "proto/convert/grpc_status.h"
#include "proto/placement/owner.h"
#include "tidepool/v1/data.grpc.pb.h"

namespace tidepool::daemon {
namespace {

constexpr std::uint64_t kSyncMs = 1000;

bool Mutates(const wire::Operation& operation) { return wire::InfoOf(operation.opcode).mutates; }

// Ends the operations `indices` with one status; texts of whole refusals go into each.
void EndAll(const std::vector<std::size_t>& indices, const Status& status,
            std::vector<OperationOutcome>* outcomes) {
  for (const std::size_t index : indices) {
    OperationOutcome& outcome = (*outcomes)[index];
    outcome = OperationOutcome();
    outcome.code = status.code();
    outcome.value = status.what();
    if (!status.remedy().empty()) outcome.value.append(" (").append(status.remedy()).append(")");
  }
}

}  // namespace

Result<std::shared_ptr<const placement::Namespace>> RequestRouter::FindNamespace(
    std::string_view name) const {
  placement::PlacementMapPtr map = context_.map();
  const bool may_be_old = map != nullptr && (map->forming() || map->Find(name) == nullptr);
  if (may_be_old && context_.sync_map) {
    // Another node may have made it a moment ago.
    context_.sync_map(Deadline::AfterMs(kSyncMs));
    map = context_.map();
  }
  if (map == nullptr || map->forming()) {
    return Status(StatusCode::kUnavailable, "the cluster is still forming",
                  "wait until all its nodes have joined: kvctl status");
  }
  if (auto space = map->Find(name); space != nullptr) return space;
  std::string known;
  for (const auto& [id, space] : map->namespaces) {
    known += (known.empty() ? "" : ", ") + space->name;
    if (known.size() > 200) break;
  }
  return Status(StatusCode::kNotFound, "no namespace '" + std::string(name.substr(0, 200)) + "'",
                "create it with: kvctl namespace create " + std::string(name.substr(0, 200)) +
                    "; there are: " + known);
}

Status RequestRouter::CheckPlace(const placement::Namespace& space,
                                 const placement::PartitionPlace& place) const {
  if (place.state == placement::PartitionState::kLost) {
    return Status(StatusCode::kDataLoss,
                  "data of namespace '" + space.name + "' was lost with its node",
                  "go on with what is left: kvctl namespace accept-loss " + space.name);
  }
  const placement::PlacementMapPtr map = context_.map();
  const placement::Node* node = map->FindNode(place.node);
  if (node == nullptr || node->state == placement::NodeState::kUp) return OkStatus();
  return Status(StatusCode::kUnavailable,
                "node " + std::to_string(place.node.value()) + " (" + node->host + " " +
                    node->control_address + "), which owns this part of '" + space.name + "', is " +
                    std::string(placement::NodeStateName(node->state)),
                "restart it there, or see: kvctl status");
}

Result<std::vector<OperationOutcome>> RequestRouter::ExecuteAt(
    const placement::Namespace& space, std::uint32_t partition,
    const std::vector<wire::Operation>& operations, std::size_t value_bytes_max,
    Deadline deadline) {
  const placement::PartitionPlace& place = space.partitions.at(partition);
  TP_RETURN_IF_ERROR(CheckPlace(space, place));
  if (place.node == context_.self()) {
    return context_.cores->Execute(place.core, PartitionId(space.id, partition), place.term,
                                   operations, value_bytes_max, deadline);
  }
  return Forward(space, partition, operations, value_bytes_max, deadline);
}

Result<std::vector<OperationOutcome>> RequestRouter::Forward(
    const placement::Namespace& space, std::uint32_t partition,
    const std::vector<wire::Operation>& operations, std::size_t value_bytes_max,
    Deadline deadline) {
  const placement::PartitionPlace& place = space.partitions[partition];
  const placement::PlacementMapPtr map = context_.map();
  const placement::Node* node = map->FindNode(place.node);
  if (node == nullptr) return Status(StatusCode::kWrongEpoch, "the owner is not in the map yet");
  v1::ExecuteRequest request;
  request.set_namespace_(space.name);
  request.mutable_addressed()->set_namespace_id(space.id.value());
  request.mutable_addressed()->set_partition(partition);
  request.mutable_addressed()->set_term(place.term.value());
  request.set_value_bytes_max(value_bytes_max);
  for (const auto& operation : operations) ToProto(operation, request.add_operations());
  grpc::ClientContext call;
  call.set_deadline(std::chrono::system_clock::now() + std::chrono::nanoseconds(deadline.LeftNs()));
  context_.authorize(call);
  v1::ExecuteResponse response;
  const auto stub = v1::Data::NewStub(context_.channel(*node));
  const grpc::Status sent = stub->Execute(&call, request, &response);
  if (!sent.ok()) {
    Status status = convert::FromGrpc(sent, "node " + std::to_string(place.node.value()));
    // The peer's own refusals carry details; a broken call says nothing about its effect.
    const bool broken = sent.error_details().empty();
    if (broken && std::any_of(operations.begin(), operations.end(), Mutates)) {
      return Status(StatusCode::kUnknown,
                    "the call to node " + std::to_string(place.node.value()) +
                        " broke; the change may or may not have happened",
                    "read the key to find out");
    }
    return status;
  }
  if (response.results_size() != static_cast<int>(operations.size())) {
    return Status(StatusCode::kInternal, "a peer answered another number of operations");
  }
  std::vector<OperationOutcome> outcomes;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    outcomes.push_back(FromProto(response.results(static_cast<int>(i)), operations[i].opcode));
  }
  return outcomes;
}

std::vector<OperationOutcome> RequestRouter::Execute(std::string_view name,
                                                     const std::vector<wire::Operation>& operations,
                                                     std::size_t value_bytes_max,
                                                     Deadline deadline) {
  std::vector<OperationOutcome> outcomes(operations.size());
  std::vector<std::size_t> left(operations.size());
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = i;
  while (!left.empty()) {
    auto found = FindNamespace(name);
    if (!found.ok()) {
      EndAll(left, found.status(), &outcomes);
      break;
    }
    const placement::Namespace& space = **found;
    const Epoch known = context_.map()->epoch;
    // Order per key is kept, since a key's operations share a partition and stay in order there.
    std::map<std::uint32_t, std::vector<std::size_t>> by_partition;
    for (const std::size_t index : left) {
      by_partition[placement::PartitionIndexOf(operations[index].key,
                                               static_cast<std::uint32_t>(space.partitions.size()))]
          .push_back(index);
    }
    left.clear();
    for (const auto& [partition, indices] : by_partition) {
      std::vector<wire::Operation> batch;
      for (const std::size_t index : indices) batch.push_back(operations[index]);
      auto part = ExecuteAt(space, partition, batch, value_bytes_max, deadline);
      if (!part.ok()) {
        if (part.code() == StatusCode::kWrongEpoch && !deadline.Passed()) {
          left.insert(left.end(), indices.begin(), indices.end());
        } else {
          EndAll(indices, part.status(), &outcomes);
        }
        continue;
      }
      for (std::size_t i = 0; i < indices.size(); ++i) {
        outcomes[indices[i]] = std::move((*part)[i]);
      }
    }
    std::sort(left.begin(), left.end());
    if (!left.empty()) context_.refresh_map(known, deadline);
  }
  return outcomes;
}

OperationOutcome RequestRouter::ExecuteOne(std::string_view space, const wire::Operation& operation,
                                           std::size_t value_bytes_max, Deadline deadline) {
  return std::move(Execute(space, {operation}, value_bytes_max, deadline).front());
}

}  // namespace tidepool::daemon
