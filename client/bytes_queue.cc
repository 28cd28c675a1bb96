// The operations of BytesQueue and BytesPriorityQueue on items that leave, and on leases: as the
// daemon's queue operations on the other side. Those that push are in bytes_queue_push.cc.
#include "tidepool/bytes_queue.h"

#include <algorithm>
#include <limits>

#include "client/calls.h"
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

Status NoItem(const CallRef& call) {
  return Status(StatusCode::kNotFound,
                "no item in queue '" + std::string(call.get()->space_name) + "'");
}

// Under a promise that nobody pushes an empty queue stays empty: no message, and nothing to wait
// for.
bool PromisesToPopOnly(const internal::Space& space) { return space.Promises(Promise::kPopOnly); }
bool MayWait(const Namespace& space, const PopOptions& options) {
  return options.wait.count() > 0 && !PromisesToPopOnly(*space.space());
}
bool IsDrained(const internal::Space& space) {
  return PromisesToPopOnly(space) && space.round()->drained();
}
CallRef NothingThere(const internal::Space& space) {
  Call* call = Call::Make(1, 0);
  call->EndHere(&call->operations()[0], StatusCode::kNotFound);
  return internal::StartCall(space, call, Mode::kSync, {}, 0);
}

// A pop or peek that has begun, and may find no item.
CallRef StartLook(const internal::Space& space, const OperationSpec& spec, Mode mode) {
  if (!PromisesToPopOnly(space)) return internal::StartOne(space, spec, mode);
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
CallRef StartPop(const Namespace& space, std::size_t items_max, const PopOptions& options,
                 bool waits, Mode mode) {
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
  spec.waits = waits;
  spec.timeout = waits ? std::min(options.wait, kWaitForEver) : options.timeout;
  return StartLook(*space.space(), spec, mode);
}

CallRef StartPeek(const Namespace& space, std::size_t items_max, const CallOptions& options) {
  if (IsDrained(*space.space())) return NothingThere(*space.space());
  OperationSpec spec;
  spec.opcode = Opcode::kPeek;
  spec.Add(Argument::kOperand, items_max);
  spec.timeout = options.timeout;
  return StartLook(*space.space(), spec, Mode::kSync);
}

CallRef StartLeaseEnd(const Namespace& space, Opcode opcode, const ItemLease& lease, Mode mode,
                      const CallOptions& options) {
  OperationSpec spec;
  spec.opcode = opcode;
  spec.Add(Argument::kOperand, lease.id);
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
  item.id = delivered.id;
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
    items_.push_back({value, delivered.id, delivered.priority, delivered.deliveries});
  }
  *more = *more || operation.number != 0;
  calls_.push_back(std::move(call));
  return {};
}

// ---- The way out.

Result<Item> BytesItems::Pop(const PopOptions& options) const {
  for (;;) {
    CallRef call = StartPop(space_, 1, options, false, Mode::kSync);
    if (PassedExpired(call)) continue;
    const bool empty =
        Only(call).code == StatusCode::kNotFound && !call.get()->HasFailure(Only(call));
    // Asked once before it waits: what is there needs no other session, and most pops of a busy
    // queue find something.
    if (!empty || !MayWait(space_, options)) return internal::TakeItem(std::move(call));
    call = StartPop(space_, 1, options, true, Mode::kSync);
    if (!PassedExpired(call)) return internal::TakeItem(std::move(call));
  }
}

Future<Item> BytesItems::PopAsync(const PopOptions& options) const {
  return {StartPop(space_, 1, options, MayWait(space_, options), Mode::kAsync),
          &internal::TakeItem};
}

Result<ItemBatch> BytesItems::PopMany(std::size_t items_max, const PopOptions& options) const {
  ItemBatch batch;
  if (items_max == 0) return batch;
  const bool may_wait = MayWait(space_, options);
  bool more = true;
  bool waits = false;
  while (more && batch.size() < items_max) {
    const Status status =
        batch.Add(StartPop(space_, items_max - batch.size(), options, waits, Mode::kSync), &more);
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
  return {StartPop(space_, items_max, options, MayWait(space_, options), Mode::kAsync),
          &internal::TakeItems};
}

Result<Item> BytesItems::Peek(const CallOptions& options) const {
  return internal::TakeItem(StartPeek(space_, 1, options));
}

Result<ItemBatch> BytesItems::PeekMany(std::size_t items_max, const CallOptions& options) const {
  return internal::TakeItems(StartPeek(space_, items_max, options));
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
    operation.queue = internal::QueueOf(space.state(), {});
    operation.opcode = Opcode::kAck;
    operation.AddArgument(Argument::kOperand, leases[i].id);
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
  OperationSpec spec;
  spec.opcode = Opcode::kQueueLength;
  spec.timeout = options.timeout;
  const CallRef call = internal::StartOne(*space_.space(), spec, Mode::kSync);
  const Operation& operation = Only(call);
  if (operation.code != StatusCode::kOk) return call.get()->StatusOf(operation);
  const auto lengths = wire::LoadQueueLengths(AsBytes(operation.result));
  if (!lengths.ok()) return lengths.status();
  return QueueLength{lengths->ready, lengths->leased};
}

}  // namespace tidepool
