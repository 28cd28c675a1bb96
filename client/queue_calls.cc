#include "client/queue_calls.h"

#include <algorithm>

#include "proto/wire/queue_ops.h"

namespace tidepool::internal {
namespace {

using wire::Argument;
using wire::Opcode;

// Under a promise that nobody pushes an empty queue stays empty: no message, and nothing to wait
// for. Of a queue with lanes it is not remembered: that one lane is empty says nothing of others.
bool PromisesToPopOnly(const Space& space) { return space.Promises(Promise::kPopOnly); }
bool Remembers(const Space& space) {
  return PromisesToPopOnly(space) && space.state()->queues.size() == 1;
}
bool IsDrained(const Space& space) { return Remembers(space) && space.round()->drained(); }

CallRef NothingThere(const Space& space) {
  Call* call = Call::Make(1, 0);
  call->EndHere(&call->operations()[0], StatusCode::kNotFound);
  return StartCall(space, call, Mode::kSync, {}, 0);
}

// A pop or peek that has begun, and may find no item.
CallRef StartLook(const Space& space, const OperationSpec& spec, Mode mode) {
  if (!Remembers(space)) return StartOne(space, spec, mode);
  const std::uint64_t pushes = space.round()->pushes;
  CallRef call = StartOne(space, spec, mode);
  call.get()->round = space.round();
  call.get()->writes_before = pushes;
  return call;
}

}  // namespace

bool HasLanes(const Namespace& space) { return space.partitions() > 1; }

bool MayWait(const Namespace& space, const PopOptions& options) {
  return options.wait.count() > 0 && !PromisesToPopOnly(*space.space());
}

CallRef StartPop(const Namespace& space, std::uint32_t lane, std::size_t items_max,
                 const PopOptions& options, bool waits, Mode mode) {
  if (options.lease.count() < 0) {
    return FailedCall(*space.space(), Status(StatusCode::kInvalidArgument, "a lease below 0 ms"));
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

void NoteDrained(const CallRef& call) {
  Call* of = call.get();
  if (of->round != nullptr) of->round->drained_at = of->writes_before;
}

}  // namespace tidepool::internal
