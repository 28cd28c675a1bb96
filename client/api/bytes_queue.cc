// The operations of BytesQueue and BytesPriorityQueue on leases and on items that leave. Pushes are
// in bytes_queue_push.cc.
#include "tidepool/bytes_queue.h"

#include <algorithm>
#include <limits>

#include "client/buffers/queue_lanes.h"
#include "client/calls/queue_calls.h"
#include "proto/base/check.h"
#include "proto/wire/queue_ops.h"

namespace tidepool {
namespace {

using internal::Call;
using internal::CallRef;
using internal::Mode;
using internal::Operation;
using internal::OperationSpec;
using wire::Argument;
using wire::Opcode;

using internal::HasLanes;
using internal::MayWait;
using internal::NoteDrained;
using internal::StartPeek;
using internal::StartPop;

Status NoItem(const CallRef& call) {
  return Status(StatusCode::kNotFound,
                "no item in queue '" + std::string(call.get()->space_name) + "'");
}

Status NoItemIn(const Namespace& space) {
  return Status(StatusCode::kNotFound, "no item in queue '" + space.name() + "'");
}

CallRef NoLane(const Namespace& space) {
  return internal::FailedCall(
      *space.space(),
      Status(StatusCode::kUnimplemented,
             "an asynchronous pop would see one lane of queue '" + space.name() + "' only",
             "use Pop or PopMany, which look into all of them"));
}

CallRef StartLeaseEnd(const Namespace& space, Opcode opcode, const ItemLease& lease, Mode mode,
                      const CallOptions& options) {
  OperationSpec spec;
  spec.opcode = opcode;
  const internal::SpaceState& state = *space.space()->state();
  spec.lane = internal::LaneOfItem(state, lease.id);
  spec.Add(Argument::kOperand, internal::NumberOfItem(state, lease.id));
  spec.Add(Argument::kCursor, lease.deliveries);
  spec.timeout = options.timeout;
  spec.receipt = options.receipt;
  const internal::PushNotice notice(space);  // Nack gives the item back.
  return internal::StartOne(*space.space(), spec, mode);
}

Status LeaseStatus(const CallRef& call, const Operation& operation) {
  if (operation.code != StatusCode::kNotFound || call.get()->HasFailure(operation)) {
    return call.get()->StatusOf(operation);
  }
  return Status(StatusCode::kNotFound, "the item is not leased in queue '" +
                                           std::string(call.get()->space_name) +
                                           "': it is gone, or was never popped under a lease");
}

Status TakeAcked(CallRef call) { return LeaseStatus(call, Only(call)); }

// True for an answer without an item that is no refusal: the daemon passed thousands of expired
// items.
bool PassedExpired(const CallRef& call) {
  const Operation& operation = Only(call);
  return operation.code == StatusCode::kOk && operation.result.empty();
}

}  // namespace

namespace internal {

Result<Item> TakeItem(CallRef call) {
  const Operation& operation = Only(call);
  // With a text it is the namespace that is gone.
  const bool failed = call.get()->HasFailure(operation);
  if (operation.code == StatusCode::kNotFound && !failed) {
    NoteDrained(call);
    return NoItem(call);
  }
  if (operation.code != StatusCode::kOk) return call.get()->StatusOf(operation);
  if (PassedExpired(call)) {
    return Status(StatusCode::kUnavailable, "thousands of expired items were in front of the next",
                  "pop again");
  }
  Bytes rest = AsBytes(operation.result);
  wire::DeliveredItem delivered;
  TP_RETURN_IF_ERROR(wire::TakeDeliveredItem(&rest, &delivered));
  Item item;
  if (delivered.streamed) {
    if (operation.large_result == nullptr) {
      return Status(StatusCode::kInternal, "the daemon answered an item without its value");
    }
    item.value = std::move(*operation.large_result);
  } else {
    item.value = AsText(delivered.value);
  }
  item.id = ItemIdOf(operation, delivered.id);
  item.priority = delivered.priority;
  item.deliveries = delivered.deliveries;
  return item;
}

Result<ItemBatch> TakeItems(CallRef call) {
  ItemBatch batch;
  bool more = false;
  const Status status = internal::Access::Add(&batch, std::move(call), &more);
  if (!status.ok()) return status;
  return batch;
}

}  // namespace internal

// ---- ItemBatch.

std::vector<ItemLease> ItemBatch::leases() const {
  std::vector<ItemLease> leases;
  leases.reserve(items_.size());
  for (const View& item : items_) leases.push_back(item.lease());
  return leases;
}

Status ItemBatch::Add(internal::CallRef call, bool* more) {
  const Operation& operation = Only(call);
  *more = false;
  if (operation.code == StatusCode::kNotFound) {
    if (call.get()->HasFailure(operation)) return call.get()->StatusOf(operation);
    NoteDrained(call);
    return OkStatus();
  }
  if (operation.code != StatusCode::kOk) return call.get()->StatusOf(operation);
  wire::DeliveredItem delivered;
  for (Bytes rest = AsBytes(operation.result); !rest.empty();) {
    TP_RETURN_IF_ERROR(wire::TakeDeliveredItem(&rest, &delivered));
    std::string_view value = AsText(delivered.value);
    if (delivered.streamed) {
      if (operation.large_result == nullptr) {
        return Status(StatusCode::kInternal, "the daemon answered an item without its value");
      }
      value = *operation.large_result;
      *more = true;  // It came alone, whatever is behind it.
    }
    items_.push_back({value, internal::ItemIdOf(operation, delivered.id), delivered.priority,
                      delivered.deliveries});
  }
  *more = *more || operation.number != 0;
  calls_.push_back(std::move(call));
  return {};
}

// ---- The way out.

Result<Item> BytesItems::Pop(const PopOptions& options) const {
  if (HasLanes(space_)) {
    auto batch = internal::PopFromLanes(space_, 1, options);
    if (!batch.ok()) return batch.status();
    if (batch->empty()) return NoItemIn(space_);
    const ItemBatch::View& item = (*batch)[0];
    return Item{std::string(item.value), item.id, item.priority, item.deliveries};
  }
  for (;;) {
    CallRef call = StartPop(space_, 0, 1, options, false, Mode::kSync);
    if (PassedExpired(call)) continue;
    const bool empty =
        Only(call).code == StatusCode::kNotFound && !call.get()->HasFailure(Only(call));
    // The first request does not wait. An item that is present needs no waiting session, and most
    // pops of a busy queue find an item.
    if (!empty || !MayWait(space_, options)) return internal::TakeItem(std::move(call));
    call = StartPop(space_, 0, 1, options, true, Mode::kSync);
    if (!PassedExpired(call)) return internal::TakeItem(std::move(call));
  }
}

Future<Item> BytesItems::PopAsync(const PopOptions& options) const {
  if (HasLanes(space_)) return internal::Access::FutureOf(NoLane(space_), &internal::TakeItem);
  return internal::Access::FutureOf(
      StartPop(space_, 0, 1, options, MayWait(space_, options), Mode::kAsync), &internal::TakeItem);
}

Result<ItemBatch> BytesItems::PopMany(std::size_t items_max, const PopOptions& options) const {
  ItemBatch batch;
  if (items_max == 0) return batch;
  if (HasLanes(space_)) return internal::PopFromLanes(space_, items_max, options);
  const bool may_wait = MayWait(space_, options);
  bool more = true;
  bool waits = false;
  while (more && batch.size() < items_max) {
    const Status status = internal::Access::Add(
        &batch, StartPop(space_, 0, items_max - batch.size(), options, waits, Mode::kSync), &more);
    if (!status.ok()) {
      if (batch.empty()) return status;
      // The items that were taken must not be lost with the failure.
      internal::Access::EndEarly(&batch, status);
      break;
    }
    waits = batch.empty() && !more && may_wait;
    if (waits) more = true;
  }
  return batch;
}

Future<ItemBatch> BytesItems::PopManyAsync(std::size_t items_max, const PopOptions& options) const {
  if (HasLanes(space_)) return internal::Access::FutureOf(NoLane(space_), &internal::TakeItems);
  return internal::Access::FutureOf(
      StartPop(space_, 0, items_max, options, MayWait(space_, options), Mode::kAsync),
      &internal::TakeItems);
}

Result<Item> BytesItems::Peek(const CallOptions& options) const {
  std::uint32_t lane = space_.space()->lane();
  Result<Item> item = internal::TakeItem(StartPeek(space_, lane, 1, options));
  if (!HasLanes(space_) || item.code() != StatusCode::kNotFound) return item;
  if (!internal::FindLaneWithItems(space_, options.timeout, &lane)) return item;
  return internal::TakeItem(StartPeek(space_, lane, 1, options));
}

Result<ItemBatch> BytesItems::PeekMany(std::size_t items_max, const CallOptions& options) const {
  std::uint32_t lane = space_.space()->lane();
  Result<ItemBatch> items = internal::TakeItems(StartPeek(space_, lane, items_max, options));
  if (!HasLanes(space_) || !items.ok() || !items->empty()) return items;
  if (!internal::FindLaneWithItems(space_, options.timeout, &lane)) return items;
  return internal::TakeItems(StartPeek(space_, lane, items_max, options));
}

// ---- Leases.

Status BytesItems::Ack(const ItemLease& lease, const CallOptions& options) const {
  const CallRef call = StartLeaseEnd(space_, Opcode::kAck, lease, Mode::kSync, options);
  return LeaseStatus(call, Only(call));
}

Future<void> BytesItems::AckAsync(const ItemLease& lease, const CallOptions& options) const {
  return internal::Access::FutureOf(
      StartLeaseEnd(space_, Opcode::kAck, lease, Mode::kAsync, options), &TakeAcked);
}

Status BytesItems::Nack(const ItemLease& lease, const CallOptions& options) const {
  const CallRef call = StartLeaseEnd(space_, Opcode::kNack, lease, Mode::kSync, options);
  return LeaseStatus(call, Only(call));
}

std::vector<Status> BytesItems::MultiAck(std::span<const ItemLease> leases,
                                         const CallOptions& options) const {
  const internal::Space& space = *space_.space();
  Call* call = Call::Make(leases.size(), 0);
  for (std::size_t i = 0; i < leases.size(); ++i) {
    Operation& operation = call->operations()[i];
    operation.queue =
        internal::QueueOfLane(space.state(), internal::LaneOfItem(*space.state(), leases[i].id));
    operation.opcode = Opcode::kAck;
    operation.AddArgument(Argument::kOperand, internal::NumberOfItem(*space.state(), leases[i].id));
    operation.AddArgument(Argument::kCursor, leases[i].deliveries);
  }
  const CallRef done = internal::StartCall(space, call, Mode::kSync, options.timeout, 0);
  std::vector<Status> statuses;
  statuses.reserve(leases.size());
  for (const Operation& operation : done.get()->operations()) {
    statuses.push_back(LeaseStatus(done, operation));
  }
  return statuses;
}

Result<QueueLength> BytesItems::Length(const CallOptions& options) const {
  const CallRef call = internal::StartLengths(space_, options.timeout);
  QueueLength length;
  for (const Operation& operation : call.get()->operations()) {
    if (operation.code != StatusCode::kOk) return call.get()->StatusOf(operation);
    const auto lengths = wire::LoadQueueLengths(AsBytes(operation.result));
    if (!lengths.ok()) return lengths.status();
    length.ready += lengths->ready;
    length.leased += lengths->leased;
  }
  return length;
}

// ---- Where the queue lives.

Result<std::uint64_t> BytesItems::DrainLocal(
    const std::function<bool(const ItemBatch::View&)>& take, const DrainOptions& options) const {
  const internal::Space& space = *space_.space();
  const PopOptions under_lease = {.lease = options.lease, .timeout = options.timeout};
  if (options.lease.count() <= 0) {
    return Status(StatusCode::kInvalidArgument, "a drain needs a lease above 0 ms");
  }
  std::uint64_t taken = 0;
  bool is_any_here = false;
  std::string owner;
  for (std::uint32_t lane = 0; lane < space_.partitions(); ++lane) {
    for (bool more = true; more && taken < options.items_max;) {
      // Asked each time, as it may move away.
      if (!space.engine()->IsLocal(*space.state(), lane, &owner)) break;
      is_any_here = true;
      ItemBatch batch;
      const auto wanted = static_cast<std::size_t>(options.items_max - taken);
      const Status popped = internal::Access::Add(
          &batch, StartPop(space_, lane, wanted, under_lease, false, Mode::kSync), &more);
      if (!popped.ok()) {
        if (taken == 0) return popped;
        return taken;
      }
      std::vector<ItemLease> accepted;
      std::size_t seen = 0;
      while (seen < batch.size() && take(batch[seen])) accepted.push_back(batch[seen++].lease());
      const bool stops = seen < batch.size();
      for (; seen < batch.size(); ++seen) (void)Nack(batch[seen].lease());
      for (const Status& acked : MultiAck(accepted, {.timeout = options.timeout})) {
        taken += acked.ok() ? 1 : 0;
      }
      if (stops) return taken;
    }
  }
  if (is_any_here) return taken;
  return Status(
      StatusCode::kFailedPrecondition,
      "queue '" + space_.name() + "' is not on this machine: " + owner + " has it",
      "drain it there, or bring it here: kvctl namespace migrate " + space_.name() + " local");
}

}  // namespace tidepool
