#include "daemon/routing/request_router.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "daemon/routing/peer_calls.h"
#include "proto/base/wrong_kind.h"

namespace tidepool::daemon {
namespace {

constexpr std::uint64_t kSyncMs = 1000;
// Time for the answer's way back to the caller: silent peers are given up this long before the
// caller's deadline, or a tenth of its time if that is less.
constexpr std::uint64_t kAnswerMarginNs = 250'000'000;

// Returns when peers are given up. The time between `deadline` and `answer_by` is for two answers,
// the peer's and ours.
Deadline PeersDeadline(Deadline deadline, std::optional<Deadline> answer_by) {
  if (!answer_by) {
    return Deadline(deadline.at_ns() - std::min(deadline.LeftNs() / 10, kAnswerMarginNs));
  }
  const std::uint64_t later_ns = std::max(answer_by->at_ns(), deadline.at_ns());
  return Deadline(deadline.at_ns() + (later_ns - deadline.at_ns()) / 2);
}

// Peers work at the same time. Up to this number, each may use the whole rest of the answer; beyond
// it the rest is divided in proportion to their operations.
constexpr std::size_t kPeersWithAllOfTheAnswer = 8;

// Returns true if the answer cannot be had again: its room in the answer is reserved before
// sending.
bool AnswersOnce(const wire::Operation& operation) {
  return operation.opcode == wire::Opcode::kTake || operation.opcode == wire::Opcode::kPop ||
         operation.opcode == wire::Opcode::kPeek || operation.opcode == wire::Opcode::kApply;
}

}  // namespace

Result<std::shared_ptr<const placement::Namespace>> RequestRouter::FindNamespace(
    std::string_view name) const {
  TP_RETURN_IF_ERROR(placement::CheckNamespaceName(name));
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
  return Status(
      StatusCode::kNotFound, "no namespace '" + std::string(name) + "'",
      "create it with: kvctl namespace create " + std::string(name) + "; there are: " + known);
}

Result<std::shared_ptr<const placement::Namespace>> RequestRouter::FindNamespaceFor(
    std::string_view name, std::string_view doing, KindMask needs) const {
  auto space = FindNamespace(name);
  if (!space.ok() || (MaskOf((*space)->kind) & needs) != 0) return space;
  return WrongKind(name, (*space)->kind, doing, needs);
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
  if (node == nullptr) return OkStatus();
  if (node->state == placement::NodeState::kUp) {
    return context_.check_answers == nullptr ? OkStatus() : context_.check_answers(node->id);
  }
  return Status(StatusCode::kUnavailable,
                "node " + std::to_string(place.node.value()) + " (" + node->host + " " +
                    node->control_address + "), which owns this part of '" + space.name + "', is " +
                    std::string(placement::NodeStateName(node->state)),
                "restart it there, or see: kvctl status");
}

Result<std::vector<OperationOutcome>> RequestRouter::ExecuteAt(
    const placement::Namespace& space, std::uint32_t partition,
    const std::vector<wire::Operation>& operations, std::size_t value_bytes_max, Deadline deadline,
    bool is_users) {
  const placement::PartitionPlace& place = space.partitions.at(partition);
  TP_RETURN_IF_ERROR(CheckPlace(space, place));
  if (place.node == context_.self()) {
    return context_.cores->Execute(place.core, PartitionId(space.id, partition), place.term,
                                   operations, value_bytes_max, deadline, kCallAnswerBytesMax,
                                   is_users);
  }
  PeerCalls calls(context_);
  TP_RETURN_IF_ERROR(calls.Start(space, partition, operations, value_bytes_max, kCallAnswerBytesMax,
                                 deadline, std::nullopt, 0));
  PeerCalls::Outcome outcome = std::vector<OperationOutcome>();
  (void)calls.Next(&outcome);
  return outcome;
}

// State of an Execute.
struct RequestRouter::Batch {
  // Operations of a partition that were sent to its owner.
  struct Part {
    std::vector<std::size_t> indices;
    Epoch known;  // Epoch of the map they were sent by.
    std::size_t answer_bytes_max = 0;
    bool reserved = false;  // These bytes were set aside.
  };
  // Ends a part. Operations refused for an old map are sent again. Operations without room in the
  // part's share get a second try with the room that other parts left.
  void End(const Part& part, PeerCalls::Outcome result) {
    if (part.reserved) left_bytes += part.answer_bytes_max;
    if (part.reserved && result.ok()) MarkForLater(part, *result);
    for (std::size_t i = 0; i < part.indices.size(); ++i) {
      OperationOutcome outcome;
      if (result.ok()) {
        outcome = std::move((*result)[i]);
      } else {
        const Status& status = result.status();
        outcome.code = status.code();
        outcome.value = status.what();
        if (!status.remedy().empty())
          outcome.value.append(" (").append(status.remedy()).append(")");
      }
      if (outcome.code == StatusCode::kWrongEpoch && !peers_deadline.Passed()) {
        again.push_back(part.indices[i]);
        known = std::max(known, part.known);
      } else if (part.reserved && tries[part.indices[i]] == Try::kNext) {
        tries[part.indices[i]] = Try::kSecond;
        later.push_back(part.indices[i]);
      } else {
        Take(std::move(outcome), part.indices[i], part.reserved);
      }
    }
  }
  // Only with all that follows it on the same key: their order is promised.
  void MarkForLater(const Part& part, const std::vector<OperationOutcome>& results) {
    if (part.answer_bytes_max >= all_bytes || peers_deadline.Passed()) return;
    std::unordered_set<std::string_view> kept;
    for (std::size_t i = part.indices.size(); i-- > 0;) {
      const std::size_t index = part.indices[i];
      const std::string_view key = AsText(operations[index].key);
      if (results[i].code == StatusCode::kOutOfRange && AnswersOnce(operations[index]) &&
          tries[index] == Try::kFirst && !kept.contains(key)) {
        tries[index] = Try::kNext;
      } else {
        kept.insert(key);
      }
    }
  }
  void Take(OperationOutcome outcome, std::size_t index, bool reserved) {
    if (!reserved && outcome.value.size() > left_bytes) {
      if (outcome.code == StatusCode::kOk) {
        outcome.value_omitted = outcome.has_number = true;
        outcome.number = outcome.value.size();
      }
      outcome.value = std::string();
    }
    left_bytes -= std::min(left_bytes, outcome.value.size());
    outcomes[index] = std::move(outcome);
  }
  void EndAll(const std::vector<std::size_t>& indices, Status status) {
    End({indices, Epoch(0), 0, false}, std::move(status));
  }

  std::string_view name;
  const std::vector<wire::Operation>& operations;
  std::size_t value_bytes_max;
  Deadline deadline;
  Deadline peers_deadline;
  std::optional<Deadline> peers_work_deadline;
  PeerCalls calls;
  std::vector<OperationOutcome> outcomes;
  enum class Try : std::uint8_t { kFirst, kNext, kSecond };
  std::vector<Try> tries;
  const std::size_t all_bytes;     // Room of the whole answer,
  std::size_t left_bytes;          // and the rest of it.
  std::vector<std::size_t> again;  // To be started,
  std::vector<std::size_t> later;  // and when all that is under way has ended.
  Epoch known;                     // Epoch of the newest map that was refused.
  std::shared_ptr<const placement::Namespace> space;
  std::vector<Part> parts;  // By tag.
};

void RequestRouter::StartPart(Batch* batch, std::uint32_t partition,
                              std::vector<std::size_t> indices, std::size_t answer_bytes_max,
                              bool reserved) {
  const placement::PartitionPlace& place = batch->space->partitions[partition];
  std::vector<wire::Operation> operations;
  for (const std::size_t index : indices) operations.push_back(batch->operations[index]);
  Batch::Part part{std::move(indices), context_.map()->epoch, answer_bytes_max, reserved};
  if (reserved) batch->left_bytes -= answer_bytes_max;
  if (Status status = CheckPlace(*batch->space, place); !status.ok()) {
    return batch->End(part, std::move(status));
  }
  if (place.node == context_.self()) {
    return batch->End(part,
                      context_.cores->Execute(place.core, PartitionId(batch->space->id, partition),
                                              place.term, operations, batch->value_bytes_max,
                                              batch->deadline, answer_bytes_max));
  }
  Status started = batch->calls.Start(*batch->space, partition, operations, batch->value_bytes_max,
                                      answer_bytes_max, batch->peers_deadline,
                                      batch->peers_work_deadline, batch->parts.size());
  if (!started.ok()) return batch->End(part, std::move(started));
  batch->parts.push_back(std::move(part));
}

void RequestRouter::StartAll(Batch* batch) {
  std::vector<std::size_t> indices = std::exchange(batch->again, {});
  std::sort(indices.begin(), indices.end());
  auto found = FindNamespace(batch->name);
  if (!found.ok()) return batch->EndAll(indices, found.status());
  batch->space = *std::move(found);
  const Kind kind = batch->space->kind;
  // The owners would refuse these operations too, but they know neither the namespace's name nor a
  // remedy.
  const auto refused = std::stable_partition(indices.begin(), indices.end(), [&](std::size_t i) {
    return (wire::InfoOf(batch->operations[i].opcode).kinds & MaskOf(kind)) != 0;
  });
  for (auto index = refused; index != indices.end(); ++index) {
    const wire::OpcodeInfo& info = wire::InfoOf(batch->operations[*index].opcode);
    // Uses the wire's and the SDK's name of the operation; kvctl may call it differently.
    batch->EndAll({*index}, WrongKind(batch->name, kind, "this", info.kinds));
  }
  indices.erase(refused, indices.end());
  if (indices.empty()) return;
  if (kind == Kind::kQueue && batch->space->partitions.size() > 1) {
    return batch->EndAll(indices, Status(StatusCode::kUnimplemented,
                                         "'" + batch->space->name +
                                             "' is a queue with lanes, which share their work "
                                             "by rules of the C++ library",
                                         "use that or kvctl, or a queue without lanes"));
  }
  // Order per key is kept, since a key's operations share a partition and stay in order there.
  struct OfPartition {
    std::vector<std::size_t> indices;
    std::size_t once = 0;  // Operations with an answer that cannot be repeated.
  };
  std::map<std::uint32_t, OfPartition> by_partition;
  std::size_t once = 0;
  for (const std::size_t index : indices) {
    const wire::Operation& operation = batch->operations[index];
    OfPartition& part = by_partition[batch->space->IndexOf(operation.key)];
    part.indices.push_back(index);
    if (!AnswersOnce(operation)) continue;
    ++part.once;
    ++once;
  }
  const std::size_t all_bytes = batch->left_bytes;
  // Our own last: they take this thread's time, while the peers already work.
  for (const bool ours : {false, true}) {
    for (auto& [partition, part] : by_partition) {
      if ((batch->space->partitions[partition].node == context_.self()) != ours) continue;
      if (part.once > 0) {
        StartPart(batch, partition, std::move(part.indices), all_bytes / once * part.once, true);
      } else if (once > 0) {
        // Retried with the room that earlier parts leave.
        batch->later.insert(batch->later.end(), part.indices.begin(), part.indices.end());
      } else if (ours) {
        StartPart(batch, partition, std::move(part.indices), batch->left_bytes, false);
      } else {
        const std::size_t share =
            all_bytes * kPeersWithAllOfTheAnswer / indices.size() * part.indices.size();
        StartPart(batch, partition, std::move(part.indices), std::min(all_bytes, share), false);
      }
    }
  }
}

std::vector<OperationOutcome> RequestRouter::Execute(std::string_view name,
                                                     const std::vector<wire::Operation>& operations,
                                                     std::size_t value_bytes_max, Deadline deadline,
                                                     std::optional<Deadline> answer_by) {
  const std::size_t answer_bytes_max = std::max(kCallAnswerBytesMax, value_bytes_max);
  Batch batch{.name = name,
              .operations = operations,
              .value_bytes_max = value_bytes_max,
              .deadline = deadline,
              .peers_deadline = PeersDeadline(deadline, answer_by),
              .peers_work_deadline = answer_by ? std::optional(deadline) : std::nullopt,
              .calls = PeerCalls(context_),
              .outcomes = std::vector<OperationOutcome>(operations.size()),
              .tries = std::vector<Batch::Try>(operations.size(), Batch::Try::kFirst),
              .all_bytes = answer_bytes_max,
              .left_bytes = answer_bytes_max,
              .again = {},
              .later = {},
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
      batch.End(batch.parts[tag], std::move(result));
    } else if (!batch.later.empty()) {
      batch.again.swap(batch.later);
      StartAll(&batch);
    } else {
      return std::move(batch.outcomes);
    }
  }
}

OperationOutcome RequestRouter::ExecuteOne(std::string_view space, const wire::Operation& operation,
                                           std::size_t value_bytes_max, Deadline deadline,
                                           std::optional<Deadline> answer_by) {
  return std::move(Execute(space, {operation}, value_bytes_max, deadline, answer_by).front());
}

}  // namespace tidepool::daemon
