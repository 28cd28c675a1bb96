#include "client/calls/queue_calls.h"

#include <algorithm>
#include <string>

#include "proto/base/check.h"
#include "proto/wire/queue_ops.h"

namespace tidepool::internal {
namespace {

using wire::Argument;
using wire::Opcode;

// With kPopOnly, no process pushes, so an empty queue stays empty. A pop then needs no message and
// no wait. A queue with lanes is not remembered: an empty lane says nothing about other lanes.
bool PromisesToPopOnly(const Space& space, Promise of_call) {
  return space.Promises(Promise::kPopOnly, of_call);
}
bool Remembers(const Space& space, Promise of_call) {
  return PromisesToPopOnly(space, of_call) && space.state()->queues.size() == 1;
}
bool IsDrained(const Space& space, Promise of_call) {
  return Remembers(space, of_call) && space.round()->drained();
}

CallRef NothingThere(const Space& space) {
  Call* call = Call::Make(1, 0);
  call->EndHere(&call->operations()[0], StatusCode::kNotFound);
  return StartCall(space, call, Mode::kSync, {}, 0);
}

// A pop or peek that has begun, and may find no item.
CallRef StartLook(const Space& space, const OperationSpec& spec, Mode mode) {
  if (!Remembers(space, spec.promise)) return StartOne(space, spec, mode);
  const std::uint64_t pushes = space.round()->pushes;
  CallRef call = StartOne(space, spec, mode);
  call.get()->round = space.round();
  call.get()->writes_before = pushes;
  return call;
}

Status RestRefused(const CallRef& call, std::size_t lanes, bool at_capacity) {
  const std::string where = "queue '" + std::string(call.get()->space_name) + "'";
  if (at_capacity && lanes > 1) {
    return Status(
        StatusCode::kResourceExhausted,
        "the lane of " + where + " that this push goes to is full: each of the " +
            std::to_string(lanes) + " lanes holds its part of the capacity",
        "pop first, push with a wait, or open the queue again (kvctl: push again): another "
        "lane may have room");
  }
  if (at_capacity) {
    return Status(StatusCode::kResourceExhausted, where + " is full: it holds its capacity",
                  "pop first, or push with a wait");
  }
  return Status(StatusCode::kResourceExhausted, "no memory for more items in " + where,
                "pop first, or start the daemons with more --memory");
}

}  // namespace

bool HasLanes(const Namespace& space) { return space.partitions() > 1; }

bool MayWait(const Namespace& space, const PopOptions& options) {
  return options.wait.count() > 0 && !PromisesToPopOnly(*space.space(), options.promise);
}

CallRef StartPop(const Namespace& space, std::uint32_t lane, std::size_t items_max,
                 const PopOptions& options, bool waits, Mode mode) {
  if (options.lease.count() < 0) {
    return FailedCall(*space.space(), Status(StatusCode::kInvalidArgument, "a lease below 0 ms"));
  }
  if (IsDrained(*space.space(), options.promise)) return NothingThere(*space.space());
  OperationSpec spec;
  spec.opcode = Opcode::kPop;
  spec.promise = options.promise;
  spec.receipt = options.receipt;
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
  if (IsDrained(*space.space(), options.promise)) return NothingThere(*space.space());
  OperationSpec spec;
  spec.opcode = Opcode::kPeek;
  spec.promise = options.promise;
  spec.lane = lane;
  spec.Add(Argument::kOperand, items_max);
  spec.timeout = options.timeout;
  return StartLook(*space.space(), spec, Mode::kSync);
}

void NoteDrained(const CallRef& call) {
  Call* of = call.get();
  if (of->round != nullptr) of->round->drained_at = of->writes_before;
}

// The daemon says by a number that it is not for memory.
bool IsAtCapacity(const Operation& operation) {
  return operation.code == StatusCode::kResourceExhausted && operation.number != 0;
}

std::size_t ItemsIn(const Operation& operation) {
  if (operation.opcode != Opcode::kPushMany) return 1;
  std::size_t count = 0;
  wire::PushedItem item;
  for (Bytes list(operation.value, operation.value_bytes); !list.empty(); ++count) {
    TP_CHECK(wire::TakePushedItem(&list, &item).ok());
  }
  return count;
}

Status PushFailure(const CallRef& call, const Operation& operation) {
  if (!IsAtCapacity(operation)) return call.get()->StatusOf(operation);
  return RestRefused(call, operation.queue->space->queues.size(), true);
}

PushedItems PushedBy(const CallRef& call, const Operation& operation, std::size_t count) {
  PushedItems pushed;
  pushed.at_capacity = IsAtCapacity(operation);
  if (operation.code != StatusCode::kOk) {
    pushed.why = PushFailure(call, operation);
    return pushed;
  }
  pushed.step = operation.queue->space->queues.size();
  if (operation.opcode == Opcode::kPush) {
    pushed.taken = 1;
    pushed.first_id = ItemIdOf(operation, operation.number);
    return pushed;
  }
  const auto rest = wire::LoadPushManyRest(AsBytes(operation.result));
  if (!rest.ok() || operation.number > count) {
    pushed.why = Status(StatusCode::kInternal, "a malformed answer to pushed items");
    return pushed;
  }
  pushed.taken = static_cast<std::size_t>(operation.number);
  pushed.first_id = ItemIdOf(operation, rest->first_id);
  if (pushed.taken == count) return pushed;
  pushed.at_capacity = rest->at_capacity;
  pushed.why = RestRefused(call, pushed.step, rest->at_capacity);
  return pushed;
}

}  // namespace tidepool::internal
