#include "client/queue_lanes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "proto/base/clock.h"
#include "proto/wire/queue_ops.h"

namespace tidepool::internal {
namespace {

using wire::Argument;
using wire::Opcode;

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
    calls.push_back(StartOne(*space.space(), spec, Mode::kAsync));
  }
  space.space()->engine()->WaitForOne(calls, ~0ull);
}

}  // namespace

CallRef StartLengths(const Namespace& handle, std::chrono::milliseconds timeout) {
  const Space& space = *handle.space();
  Call* call = Call::Make(handle.partitions(), 0);
  for (std::uint32_t lane = 0; lane < handle.partitions(); ++lane) {
    Operation& operation = call->operations()[lane];
    operation.queue = QueueOfLane(space.state(), lane);
    operation.opcode = Opcode::kQueueLength;
  }
  return StartCall(space, call, Mode::kSync, timeout, 0);
}

bool FindLaneWithItems(const Namespace& space, std::chrono::milliseconds timeout,
                       std::uint32_t* lane) {
  Status failure;
  const std::vector<std::uint32_t> lanes = LanesWithItems(space, timeout, &failure);
  if (!lanes.empty()) *lane = lanes.front();
  return !lanes.empty();
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
    if (!batch.empty()) {
      batch.EndEarly(std::move(failure));  // What was taken must not be lost with it.
      return batch;
    }
    if (!failure.ok()) return failure;
    if (!MayWait(space, options)) return batch;
    if (until.Passed()) {
      return Status(StatusCode::kDeadlineExceeded,
                    "no item came to queue '" + space.name() + "' in time");
    }
    WaitForItem(space, std::chrono::milliseconds(std::max<std::uint64_t>(1, until.LeftMs())));
  }
}

}  // namespace tidepool::internal
