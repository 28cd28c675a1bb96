// The operations of BytesQueue and BytesPriorityQueue on items that leave, and on leases: as the
// daemon's queue operations on the other side. Those that push are in bytes_queue_push.cc.
#include "tidepool/bytes_queue.h"

#include <algorithm>
#include <limits>

#include "client/calls.h"
#include "proto/base/check.h"
#include "proto/base/clock.h"
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

Status NoItem(const CallRef& call) {
  return Status(StatusCode::kNotFound,
                "no item in queue '" + std::string(call.get()->space_name) + "'");
}

// Under a promise that nobody pushes an empty queue stays empty: no message, and nothing to wait
// for. Of a queue with lanes it is not remembered: that one lane is empty says nothing of others.
bool HasLanes(const internal::Space& space) { return space.state()->queues.size() > 1; }
bool PromisesToPopOnly(const internal::Space& space) { return space.Promises(Promise::kPopOnly); }
bool MayWait(const Namespace& space, const PopOptions& options) {
  return options.wait.count() > 0 && !PromisesToPopOnly(*space.space());
}
bool IsDrained(const internal::Space& space) {
  return PromisesToPopOnly(space) && !HasLanes(space) && space.round()->drained();
}
CallRef NothingThere(const internal::Space& space) {
  Call* call = Call::Make(1, 0);
  call->EndHere(&call->operations()[0], StatusCode::kNotFound);
  return internal::StartCall(space, call, Mode::kSync, {}, 0);
}

// A pop or peek that has begun, and may find no item.
CallRef StartLook(const internal::Space& space, const OperationSpec& spec, Mode mode) {
  if (!PromisesToPopOnly(space) || HasLanes(space)) return internal::StartOne(space, spec, mode);
  const std::uint64_t pushes = space.round()->pushes;
  CallRef call = internal::StartOne(space, spec, mode);
  call.get()->round = space.round();
  call.get()->writes_before = pushes;
  return call;
}

// It has ended without an item.
void NoteDrained(const CallRef& call) {
  Call* of = call.get();
  if (of->round != nullptr) of->round->drained_at = of->writes_before;
}

// With `waits` until one comes.
CallRef StartPop(const Namespace& space, std::uint32_t lane, std::size_t items_max,
                 const PopOptions& options, bool waits, Mode mode) {
  if (options.lease.count() < 0) {
    return internal::FailedCall(*space.space(),
                                Status(StatusCode::kInvalidArgument, "a lease below 0 ms"));
  }
  if (IsDrained(*space.space())) return NothingThere(*space.space());
  OperationSpec spec;
  spec.opcode = Opcode::kPop;
  if (options.lease.count() > 0) {
    spec.Add(Argument::kTtlMs, static_cast<std::uint64_t>(options.lease.count()));
  }
  spec.Add(Argument::kOperand, items_max);
  spec.lane = lane;
  spec.waits = waits;
  spec.timeout = waits ? std::min(options.wait, kWaitForEver) : options.timeout;
  return StartLook(*space.space(), spec, mode);
}

CallRef StartPeek(const Namespace& space, std::uint32_t lane, std::size_t items_max,
                  const CallOptions& options) {
  if (IsDrained(*space.space())) return NothingThere(*space.space());
  OperationSpec spec;
  spec.opcode = Opcode::kPeek;
  spec.lane = lane;
  spec.Add(Argument::kOperand, items_max);
  spec.timeout = options.timeout;
  return StartLook(*space.space(), spec, Mode::kSync);
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

Result<bool> TakeAcked(CallRef call) {
  const Status status = LeaseStatus(call, Only(call));
  if (!status.ok()) return status;
  return true;
}

// An answer without an item that is no refusal: the daemon passed thousands of expired ones.
bool PassedExpired(const CallRef& call) {
  const Operation& operation = Only(call);
  return operation.code == StatusCode::kOk && operation.result.empty();
}

// ---- Lanes.

bool HasLanes(const Namespace& space) { return HasLanes(*space.space()); }

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

// Of all lanes at once, in their order.
CallRef StartLengths(const Namespace& handle, std::chrono::milliseconds timeout) {
  const internal::Space& space = *handle.space();
  Call* call = Call::Make(handle.partitions(), 0);
  for (std::uint32_t lane = 0; lane < handle.partitions(); ++lane) {
    Operation& operation = call->operations()[lane];
    operation.queue = internal::QueueOfLane(space.state(), lane);
    operation.opcode = Opcode::kQueueLength;
  }
  return internal::StartCall(space, call, Mode::kSync, timeout, 0);
}

// The lanes that have ready items now, from the handle's own on; and why one did not say, if so.
std::vector<std::uint32_t> LanesWithItems(const Namespace& space, std::chrono::milliseconds timeout,
                                          Status* failure) {
  const CallRef call = StartLengths(space, timeout);
  std::vector<std::uint32_t> lanes;
  for (std::uint32_t i = 0; i < space.partitions(); ++i) {
    const std::uint32_t lane = (space.space()->lane() + i) % space.partitions();
    const Operation& operation = call.get()->operations()[lane];
    if (operation.code != StatusCode::kOk) {
      *failure = call.get()->StatusOf(operation);
      continue;
    }
    const auto lengths = wire::LoadQueueLengths(AsBytes(operation.result));
    if (lengths.ok() && lengths->ready > 0) lanes.push_back(lane);
  }
  return lanes;
}

bool FindLaneWithItems(const Namespace& space, std::chrono::milliseconds timeout,
                       std::uint32_t* lane) {
  Status failure;
  const std::vector<std::uint32_t> lanes = LanesWithItems(space, timeout, &failure);
  if (!lanes.empty()) *lane = lanes.front();
  return !lanes.empty();
}

// Adds items of one lane until there are enough or it has no more.
Status TakeFromLane(const Namespace& space, std::uint32_t lane, std::size_t items_max,
                    const PopOptions& options, ItemBatch* batch) {
  for (bool more = true; more && batch->size() < items_max;) {
    TP_RETURN_IF_ERROR(batch->Add(
        StartPop(space, lane, items_max - batch->size(), options, false, Mode::kSync), &more));
  }
  return {};
}

// A wait on each lane, until one of them has an item for somebody.
void WaitForItem(const Namespace& space, std::chrono::milliseconds wait) {
  std::vector<CallRef> calls;
  for (std::uint32_t lane = 0; lane < space.partitions(); ++lane) {
    OperationSpec spec;
    spec.opcode = Opcode::kPop;
    spec.Add(Argument::kOperand, 0);
    spec.lane = lane;
    spec.waits = true;
    spec.timeout = wait;
    calls.push_back(internal::StartOne(*space.space(), spec, Mode::kAsync));
  }
  space.space()->engine()->WaitForOne(calls, ~0ull);
}

Result<ItemBatch> PopFromLanes(const Namespace& space, std::size_t items_max,
                               const PopOptions& options) {
  const auto wait_ms = static_cast<std::uint64_t>(
      std::clamp<std::int64_t>(options.wait.count(), 0, kWaitForEver.count()));
  const Deadline until = Deadline::AfterMs(wait_ms);
  ItemBatch batch;
  for (;;) {
    // Most pops of a busy queue find something in the own lane.
    Status failure = TakeFromLane(space, space.space()->lane(), items_max, options, &batch);
    if (failure.code() == StatusCode::kInvalidArgument ||
        failure.code() == StatusCode::kCancelled) {
      return failure;
    }
    if (batch.size() < items_max) {
      for (const std::uint32_t lane : LanesWithItems(space, options.timeout, &failure)) {
        const Status taken = TakeFromLane(space, lane, items_max, options, &batch);
        if (!taken.ok()) failure = taken;
        if (batch.size() == items_max) break;
      }
    }
    if (!batch.empty()) return batch;  // What was taken must not be lost with a failure.
    if (!failure.ok()) return failure;
    if (!MayWait(space, options)) return batch;
    if (until.Passed()) {
      return Status(StatusCode::kDeadlineExceeded,
                    "no item came to queue '" + space.name() + "' in time");
    }
    WaitForItem(space, std::chrono::milliseconds(std::max<std::uint64_t>(1, until.LeftMs())));
  }
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
  const Status status = batch.Add(std::move(call), &more);
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
    auto batch = PopFromLanes(space_, 1, options);
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
    // Asked once before it waits: what is there needs no other session, and most pops of a busy
    // queue find something.
    if (!empty || !MayWait(space_, options)) return internal::TakeItem(std::move(call));
    call = StartPop(space_, 0, 1, options, true, Mode::kSync);
    if (!PassedExpired(call)) return internal::TakeItem(std::move(call));
  }
}

Future<Item> BytesItems::PopAsync(const PopOptions& options) const {
  if (HasLanes(space_)) return {NoLane(space_), &internal::TakeItem};
  return {StartPop(space_, 0, 1, options, MayWait(space_, options), Mode::kAsync),
          &internal::TakeItem};
}

Result<ItemBatch> BytesItems::PopMany(std::size_t items_max, const PopOptions& options) const {
  ItemBatch batch;
  if (items_max == 0) return batch;
  if (HasLanes(space_)) return PopFromLanes(space_, items_max, options);
  const bool may_wait = MayWait(space_, options);
  bool more = true;
  bool waits = false;
  while (more && batch.size() < items_max) {
    const Status status = batch.Add(
        StartPop(space_, 0, items_max - batch.size(), options, waits, Mode::kSync), &more);
    if (!status.ok()) {
      if (batch.empty()) return status;
      batch.EndEarly(status);  // What was taken must not be lost with the failure.
      break;
    }
    waits = batch.empty() && !more && may_wait;
    if (waits) more = true;
  }
  return batch;
}

Future<ItemBatch> BytesItems::PopManyAsync(std::size_t items_max, const PopOptions& options) const {
  if (HasLanes(space_)) return {NoLane(space_), &internal::TakeItems};
  return {StartPop(space_, 0, items_max, options, MayWait(space_, options), Mode::kAsync),
          &internal::TakeItems};
}

Result<Item> BytesItems::Peek(const CallOptions& options) const {
  std::uint32_t lane = space_.space()->lane();
  Result<Item> item = internal::TakeItem(StartPeek(space_, lane, 1, options));
  if (!HasLanes(space_) || item.code() != StatusCode::kNotFound) return item;
  if (!FindLaneWithItems(space_, options.timeout, &lane)) return item;
  return internal::TakeItem(StartPeek(space_, lane, 1, options));
}

Result<ItemBatch> BytesItems::PeekMany(std::size_t items_max, const CallOptions& options) const {
  std::uint32_t lane = space_.space()->lane();
  Result<ItemBatch> items = internal::TakeItems(StartPeek(space_, lane, items_max, options));
  if (!HasLanes(space_) || !items.ok() || !items->empty()) return items;
  if (!FindLaneWithItems(space_, options.timeout, &lane)) return items;
  return internal::TakeItems(StartPeek(space_, lane, items_max, options));
}

// ---- Leases.

Status BytesItems::Ack(const ItemLease& lease, const CallOptions& options) const {
  const CallRef call = StartLeaseEnd(space_, Opcode::kAck, lease, Mode::kSync, options);
  return LeaseStatus(call, Only(call));
}

Future<bool> BytesItems::AckAsync(const ItemLease& lease, const CallOptions& options) const {
  return {StartLeaseEnd(space_, Opcode::kAck, lease, Mode::kAsync, options), &TakeAcked};
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
  const CallRef call = StartLengths(space_, options.timeout);
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
      const Status popped =
          batch.Add(StartPop(space_, lane, wanted, under_lease, false, Mode::kSync), &more);
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
