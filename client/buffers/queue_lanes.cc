#include "client/buffers/queue_lanes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "proto/base/clock.h"
#include "proto/wire/queue_ops.h"

namespace tidepool::internal {
namespace {

using wire::Argument;
using wire::Opcode;

// Time after which a silent lane is asked alone, because other lanes may have items. A lane is
// silent while it moves or its node is stopped. The time doubles while no answer comes, for slow
// networks.
constexpr std::chrono::milliseconds kPatience(100);

struct LanesSeen {
  std::vector<std::uint32_t> with_items;  // From the handle's own on.
  Status failure;                         // Reason of a lane that failed.
  Status silence;                         // Reason of a lane that has not answered.
};

LanesSeen AskLanes(const Namespace& space, std::chrono::milliseconds timeout) {
  const CallRef call = StartLengths(space, timeout);
  LanesSeen seen;
  for (std::uint32_t i = 0; i < space.partitions(); ++i) {
    const std::uint32_t lane = (space.space()->lane() + i) % space.partitions();
    const Operation& operation = call.get()->operations()[lane];
    if (operation.code == StatusCode::kDeadlineExceeded) {
      seen.silence = call.get()->StatusOf(operation);
    } else if (operation.code != StatusCode::kOk) {
      seen.failure = call.get()->StatusOf(operation);
    } else {
      const auto lengths = wire::LoadQueueLengths(AsBytes(operation.result));
      if (lengths.ok() && lengths->ready > 0) seen.with_items.push_back(lane);
    }
  }
  return seen;
}

// Returns the lanes that have ready items. `once`: the caller asks again, or has items already.
// Otherwise an empty result without a `failure` means that all lanes have answered.
std::vector<std::uint32_t> LanesWithItems(const Namespace& space, std::chrono::milliseconds timeout,
                                          bool once, std::chrono::milliseconds* patience,
                                          Status* failure) {
  if (timeout.count() <= 0) timeout = space.space()->engine()->options().connect.call_timeout;
  const Deadline until = Deadline::AfterMs(
      static_cast<std::uint64_t>(std::min<std::int64_t>(timeout.count(), kWaitForEver.count())));
  for (;;) {
    const std::chrono::milliseconds left(std::max<std::uint64_t>(1, until.LeftMs()));
    const bool is_last = left <= *patience;
    LanesSeen seen = AskLanes(space, std::min(*patience, left));
    const bool is_silent = !seen.silence.ok() && seen.with_items.empty();
    if (is_silent) *patience *= 2;
    if (is_silent && !once && !is_last) continue;
    if (is_silent && !once) *failure = seen.silence;
    if (!seen.failure.ok()) *failure = seen.failure;
    return seen.with_items;
  }
}

// Adds items of a lane until the batch is full or the lane is empty.
Status TakeFromLane(const Namespace& space, std::uint32_t lane, std::size_t items_max,
                    const PopOptions& options, ItemBatch* batch) {
  for (bool more = true; more && batch->size() < items_max;) {
    TP_RETURN_IF_ERROR(Access::Add(
        batch, StartPop(space, lane, items_max - batch->size(), options, false, Mode::kSync),
        &more));
  }
  return {};
}

// Waits on all lanes until a lane has an item.
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
  std::chrono::milliseconds patience = kPatience;
  const std::vector<std::uint32_t> lanes =
      LanesWithItems(space, timeout, false, &patience, &failure);
  if (!lanes.empty()) *lane = lanes.front();
  return !lanes.empty();
}

Result<ItemBatch> PopFromLanes(const Namespace& space, std::size_t items_max,
                               const PopOptions& options) {
  const auto wait_ms = static_cast<std::uint64_t>(
      std::clamp<std::int64_t>(options.wait.count(), 0, kWaitForEver.count()));
  const Deadline until = Deadline::AfterMs(wait_ms);
  std::chrono::milliseconds patience = kPatience;
  ItemBatch batch;
  for (;;) {
    // Most pops of a busy queue find something in the own lane.
    Status failure = TakeFromLane(space, space.space()->lane(), items_max, options, &batch);
    if (failure.code() == StatusCode::kInvalidArgument ||
        failure.code() == StatusCode::kCancelled) {
      return failure;
    }
    if (batch.size() < items_max) {
      const bool once = !batch.empty() || MayWait(space, options);
      for (const std::uint32_t lane :
           LanesWithItems(space, options.timeout, once, &patience, &failure)) {
        const Status taken = TakeFromLane(space, lane, items_max, options, &batch);
        if (!taken.ok()) failure = taken;
        if (batch.size() == items_max) break;
      }
    }
    if (!batch.empty()) {
      // Items that were taken must not be lost with the failure.
      Access::EndEarly(&batch, std::move(failure));
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
