// Common parts of operations on queues: the start of pops, and the outcomes of pushes. For
// bytes_queue, queue_lanes and item_buffer.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "client/calls/calls.h"
#include "client/engine/space.h"
#include "tidepool/bytes_queue.h"

namespace tidepool::internal {

// True if the caller wants to wait for an item and did not promise that no item will come
// (kPopOnly).
bool MayWait(const Namespace& space, const PopOptions& options);
bool HasLanes(const Namespace& space);

// Starts a pop of one lane (0 of a queue without lanes). `waits`: until an item comes. Under
// kPopOnly an empty queue is asked once, and NoteDrained remembers the answer.
CallRef StartPop(const Namespace& space, std::uint32_t lane, std::size_t items_max,
                 const PopOptions& options, bool waits, Mode mode);
CallRef StartPeek(const Namespace& space, std::uint32_t lane, std::size_t items_max,
                  const CallOptions& options);
// A pop or peek that has ended without an item.
void NoteDrained(const CallRef& call);

// How many items an operation carries that pushes.
std::size_t ItemsIn(const Operation& operation);
// Outcome of a push. The first `taken` items are in the queue. `why` is the reason for the rest.
// After kUnknown the rest may be in the queue.
struct PushedItems {
  std::size_t taken = 0;
  ItemId first_id = 0;  // Id of the first item; each further id is greater by `step`.
  std::uint64_t step = 1;
  bool at_capacity = false;
  Status why;
};
// REQUIRES: the call is done; count == ItemsIn(operation).
PushedItems PushedBy(const CallRef& call, const Operation& operation, std::size_t count);
// It was refused as a whole for the queue's capacity, not for memory.
bool IsAtCapacity(const Operation& operation);
// Returns the error of a failed push. A capacity error names the queue, and the lane if there are
// lanes.
Status PushFailure(const CallRef& call, const Operation& operation);

}  // namespace tidepool::internal
