#include "daemon/services/request_router.h"

#include <algorithm>
#include <map>
#include <utility>

#include "daemon/services/peer_calls.h"

namespace tidepool::daemon {
namespace {

constexpr std::uint64_t kSyncMs = 1000;
// What an answer may take on its way back to the caller: peers that do not answer are given up so
// much before the caller's deadline, or a tenth of its time.
constexpr std::uint64_t kAnswerMarginNs = 250'000'000;

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
  PeerCalls calls(context_);
  TP_RETURN_IF_ERROR(calls.Start(space, partition, operations, value_bytes_max, deadline, 0));
  PeerCalls::Outcome outcome = std::vector<OperationOutcome>();
  (void)calls.Next(&outcome);
  return outcome;
}

// One call of Execute.
struct RequestRouter::Batch {
  // The operations of one partition that are with a peer.
  struct Part {
    std::vector<std::size_t> indices;
    Epoch known;  // Of the map by which they were sent.
  };
  // A part ends. What an old map has led astray is to be sent again.
  void End(const std::vector<std::size_t>& indices, Epoch sent_by, PeerCalls::Outcome result) {
    if (result.ok()) {
      for (std::size_t i = 0; i < indices.size(); ++i) {
        outcomes[indices[i]] = std::move((*result)[i]);
      }
    } else if (result.code() == StatusCode::kWrongEpoch && !peers_deadline.Passed()) {
      again.insert(again.end(), indices.begin(), indices.end());
      known = std::max(known, sent_by);
    } else {
      EndAll(indices, result.status(), &outcomes);
    }
  }

  std::string_view name;
  const std::vector<wire::Operation>& operations;
  std::size_t value_bytes_max;
  Deadline deadline;
  Deadline peers_deadline;
  PeerCalls calls;
  std::vector<OperationOutcome> outcomes;
  std::vector<std::size_t> again;  // To be started.
  Epoch known;                     // Of the newest map that was refused.
  std::shared_ptr<const placement::Namespace> space;
  std::vector<Part> parts;  // By tag.
};

void RequestRouter::StartPart(Batch* batch, std::uint32_t partition,
                              std::vector<std::size_t> indices) {
  const placement::PartitionPlace& place = batch->space->partitions[partition];
  const Epoch known = context_.map()->epoch;
  std::vector<wire::Operation> operations;
  for (const std::size_t index : indices) operations.push_back(batch->operations[index]);
  if (Status status = CheckPlace(*batch->space, place); !status.ok()) {
    return batch->End(indices, known, std::move(status));
  }
  if (place.node == context_.self()) {
    return batch->End(
        indices, known,
        context_.cores->Execute(place.core, PartitionId(batch->space->id, partition), place.term,
                                operations, batch->value_bytes_max, batch->deadline));
  }
  Status started = batch->calls.Start(*batch->space, partition, operations, batch->value_bytes_max,
                                      batch->peers_deadline, batch->parts.size());
  if (!started.ok()) return batch->End(indices, known, std::move(started));
  batch->parts.push_back({std::move(indices), known});
}

void RequestRouter::StartAll(Batch* batch) {
  std::vector<std::size_t> indices = std::exchange(batch->again, {});
  std::sort(indices.begin(), indices.end());
  auto found = FindNamespace(batch->name);
  if (!found.ok()) return EndAll(indices, found.status(), &batch->outcomes);
  batch->space = *std::move(found);
  if (batch->space->kind == Kind::kQueue && batch->space->partitions.size() > 1) {
    return EndAll(indices,
                  Status(StatusCode::kUnimplemented,
                         "'" + batch->space->name +
                             "' is a queue with lanes, which share their work "
                             "by rules of the C++ library",
                         "use that or kvctl, or a queue without lanes"),
                  &batch->outcomes);
  }
  // Order per key is kept, since a key's operations share a partition and stay in order there.
  std::map<std::uint32_t, std::vector<std::size_t>> by_partition;
  for (const std::size_t index : indices) {
    by_partition[batch->space->IndexOf(batch->operations[index].key)].push_back(index);
  }
  // Our own last: they take this thread's time, while the peers already work.
  for (const bool ours : {false, true}) {
    for (auto& [partition, part] : by_partition) {
      if ((batch->space->partitions[partition].node == context_.self()) != ours) continue;
      StartPart(batch, partition, std::move(part));
    }
  }
}

std::vector<OperationOutcome> RequestRouter::Execute(std::string_view name,
                                                     const std::vector<wire::Operation>& operations,
                                                     std::size_t value_bytes_max,
                                                     Deadline deadline) {
  const std::uint64_t margin_ns = std::min(deadline.LeftNs() / 10, kAnswerMarginNs);
  Batch batch{.name = name,
              .operations = operations,
              .value_bytes_max = value_bytes_max,
              .deadline = deadline,
              .peers_deadline = Deadline(deadline.at_ns() - margin_ns),
              .calls = PeerCalls(context_),
              .outcomes = std::vector<OperationOutcome>(operations.size()),
              .again = {},
              .known = Epoch(0),
              .space = nullptr,
              .parts = {}};
  for (std::size_t i = 0; i < operations.size(); ++i) batch.again.push_back(i);
  if (!operations.empty()) StartAll(&batch);
  for (;;) {
    if (!batch.again.empty()) {
      context_.refresh_map(batch.known, batch.peers_deadline);
      StartAll(&batch);
    } else if (batch.calls.under_way() > 0) {
      PeerCalls::Outcome result = std::vector<OperationOutcome>();
      const std::size_t tag = batch.calls.Next(&result);
      batch.End(batch.parts[tag].indices, batch.parts[tag].known, std::move(result));
    } else {
      return std::move(batch.outcomes);
    }
  }
}

OperationOutcome RequestRouter::ExecuteOne(std::string_view space, const wire::Operation& operation,
                                           std::size_t value_bytes_max, Deadline deadline) {
  return std::move(Execute(space, {operation}, value_bytes_max, deadline).front());
}

}  // namespace tidepool::daemon
