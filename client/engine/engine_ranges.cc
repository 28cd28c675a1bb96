// Ordered namespaces: the partition of an operation, and waiting operations after the split of a
// range.
#include <algorithm>
#include <optional>
#include <utility>

#include "client/direct/direct_space.h"
#include "client/engine/engine.h"
#include "client/engine/pack_pieces.h"
#include "proto/base/check.h"
#include "proto/wire/ordered_ops.h"

namespace tidepool::internal {

// Packs, and operations addressed to a partition by its number, stay in their queue.
PartitionQueue* Engine::RouteOf(const Operation& operation) {
  SpaceState* space = operation.queue->space;
  const wire::OpcodeInfo& info = wire::InfoOf(operation.opcode);
  if (operation.is_pack() || (!info.keyed && !info.ranged)) return operation.queue;
  if (operation.opcode == wire::Opcode::kScan) {
    const std::uint64_t bits = operation.Word(wire::Argument::kOptions);
    if ((bits & wire::kScanReverse) != 0) {
      std::optional<Bytes> end;
      if ((bits & wire::kRangeHasEnd) != 0) end = Bytes(operation.value, operation.value_bytes);
      return &space->queues[space->ranges->IndexBelow(end)];
    }
  }
  return &space->queues[space->ranges->IndexOf(operation.key_view())];
}

// A new operation, to the queue that it belongs to now.
void Engine::EnqueueByRange(Operation* operation, const placement::Ranges* packed_by) {
  SpaceState* space = operation->queue->space;
  if (!operation->is_pack()) {
    operation->queue = RouteOf(*operation);
  } else if (packed_by != space->ranges.get() && SpreadPack(operation)) {
    for (const auto& piece : operation->pieces->pieces) {
      CoreLink::Enqueue(&piece->operation);
      if (IsDown(*piece->operation.queue)) down_waiting_ = true;
    }
    return;
  }
  CoreLink::Enqueue(operation);
  if (IsDown(*operation->queue)) down_waiting_ = true;
}

// Handles an operation that was sent and refused, or that waited in a queue with a split range.
// REQUIRES: the operation is in no queue.
void Engine::RequeueByRange(Operation* operation) {
  if (operation->is_pack()) {
    if (!SpreadPack(operation)) return CoreLink::Insert(operation);
    for (const auto& piece : operation->pieces->pieces) CoreLink::Insert(&piece->operation);
    return;
  }
  PartitionQueue* to = RouteOf(*operation);
  if (operation->streamed) {
    operation->queue->ForgetStreamed(operation);
    if (to != operation->queue) operation->queue->link->MakeReady(operation->queue);
    to->AddStreamed(operation);
  }
  operation->queue = to;
  CoreLink::Insert(operation);
}

// Spreads the operations of a pack over the partitions of their keys. False: all keys belong to a
// single partition, whose queue is set.
bool Engine::SpreadPack(Operation* pack) {
  SpaceState* space = pack->queue->space;
  const placement::Ranges& ranges = *space->ranges;
  std::optional<std::uint32_t> first;
  bool spreads = false;
  wire::VisitKeys({pack->value, pack->value_bytes}, pack->pack_uniform, pack->pack_count,
                  [&](Bytes key) {
                    const std::uint32_t index = ranges.IndexOf(key);
                    if (!first.has_value()) first = index;
                    spreads |= index != *first;
                  });
  if (!spreads) {
    pack->queue = &space->queues[*first];
    return false;
  }
  pack->state = Operation::State::kSpread;
  pack->frame = nullptr;
  pack->pieces = std::make_unique<PackPieces>(
      pack, [&](Bytes key) { return &space->queues[ranges.IndexOf(key)]; });
  return true;
}

// Ends a piece. Its failures are noted with the call.
void Engine::EndPiece(Operation* piece) {
  TP_DCHECK(piece->state != Operation::State::kEnded);
  piece->state = Operation::State::kEnded;
  Operation* whole = piece->piece_of->whole;
  TP_DCHECK(whole->state == Operation::State::kSpread && whole->pieces->left > 0);
  if (--whole->pieces->left == 0) End(whole, StatusCode::kOk);
}

// True if a part of the pack was sent and its outcome is unknown.
bool Engine::AbandonPieces(Operation* pack) {
  bool sent = false;
  for (const auto& piece : pack->pieces->pieces) {
    Operation& operation = piece->operation;
    if (operation.state == Operation::State::kEnded) continue;
    if (operation.state == Operation::State::kSpread) {
      sent |= AbandonPieces(&operation);
    } else {
      sent |= operation.state == Operation::State::kSent;
      // A sent piece itself notes its operations without an answer.
      const bool queued = operation.state == Operation::State::kQueued;
      Abandon(&operation);
      if (queued) operation.call->AddPackFailure(operation, 0, operation.pack_count, {});
    }
    operation.state = Operation::State::kEnded;
  }
  pack->pieces->left = 0;
  return sent;
}

// Takes over the ranges of a newer map. New partitions have the upper parts of known ranges.
void Engine::UpdateRanges(SpaceState* space, const placement::Namespace& now) {
  if (space->ranges != nullptr) {
    for (std::uint32_t i = space->queues.size(); i < now.partitions.size(); ++i) {
      const std::uint32_t parent = space->ranges->IndexOf(AsBytes(now.ranges->BeginOf(i)));
      PartitionQueue& queue = space->queues.Append();
      queue.id = PartitionId(space->id, i);
      queue.space = space;
      queue.parent = &space->queues[parent];
      queue.parent_term = now.partitions[parent].term;
      queue.parent->has_successors = queue.parent->is_split = true;
    }
  }
  space->ranges = now.ranges;
  if (space->direct != nullptr) space->direct->SetRanges(now.ranges);
}

// Moves waiting operations whose keys now belong to another partition to it, in their order.
void Engine::MoveMisrouted(PartitionQueue* queue) {
  std::vector<Operation*> misrouted;
  for (Operation* operation = queue->waiting.front(); operation != nullptr;
       operation = operation->next) {
    if (operation->is_pack() || RouteOf(*operation) != queue) misrouted.push_back(operation);
  }
  for (Operation* operation : misrouted) {
    queue->link->Unqueue(operation);
    RequeueByRange(operation);
  }
}

void Engine::WakeSuccessors(const SpaceState& space) {
  bool some_wait = false;
  for (PartitionQueue& queue : space.queues) {
    if (queue.parent == nullptr) continue;
    if (!queue.ParentsAreDone()) {
      some_wait = true;
    } else if (!queue.waiting.empty()) {
      queue.link->MakeReady(&queue);
    }
  }
  if (some_wait) return;
  // Until the next split, no queue has a successor to look for.
  for (PartitionQueue& queue : space.queues) queue.has_successors = false;
}

std::shared_ptr<const placement::Ranges> Engine::RangesOf(const SpaceState& space) const {
  const Lock lock(*this);
  return space.ranges;
}

std::optional<std::string> Engine::NextRangeOn(const SpaceState& space, Bytes from,
                                               NodeId node) const {
  const Lock lock(*this);
  const placement::Ranges& ranges = *space.ranges;
  for (std::uint32_t index = ranges.IndexOf(from);;) {
    const bool is_first = AsText(from) >= ranges.BeginOf(index);
    if (space.queues[index].link->session().node() == node) {
      return is_first ? std::string(AsText(from)) : ranges.BeginOf(index);
    }
    const std::string* end = ranges.EndOf(index);
    if (end == nullptr) return std::nullopt;
    index = ranges.IndexOf(AsBytes(*end));
  }
}

}  // namespace tidepool::internal
