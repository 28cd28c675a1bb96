// What operations on queues have in common: how those on items that leave are started, and what has
// become of those that push. For bytes_queue, queue_lanes and item_buffer.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "client/calls/calls.h"
#include "client/engine/space.h"
#include "tidepool/bytes_queue.h"

namespace tidepool::internal {

// Whether the caller wants to wait for an item, and has not promised that none will come
// (kPopOnly).
bool MayWait(const Namespace& space, const PopOptions& options);
bool HasLanes(const Namespace& space);

// Of one lane (0 of a queue without). With `waits` until an item comes. Under kPopOnly an empty
// queue is asked once, and what it says is remembered by NoteDrained.
CallRef StartPop(const Namespace& space, std::uint32_t lane, std::size_t items_max,
                 const PopOptions& options, bool waits, Mode mode);
CallRef StartPeek(const Namespace& space, std::uint32_t lane, std::size_t items_max,
                  const CallOptions& options);
// A pop or peek that has ended without an item.
void NoteDrained(const CallRef& call);

// How many items an operation carries that pushes.
std::size_t ItemsIn(const Operation& operation);
// What has become of them: the first `taken` are in the queue, and the rest is not, for `why`, or
// after kUnknown perhaps.
struct PushedItems {
  std::size_t taken = 0;
  ItemId first_id = 0;  // Of those; each further one is `step` more.
  std::uint64_t step = 1;
  bool at_capacity = false;
  Status why;
};
// REQUIRES: the call is done; count == ItemsIn(operation).
PushedItems PushedBy(const CallRef& call, const Operation& operation, std::size_t count);
// It was refused as a whole for the queue's capacity, not for memory.
bool IsAtCapacity(const Operation& operation);
// Why an operation that pushes has failed: at capacity by the queue's name, and of one with lanes
// that it is this lane.
Status PushFailure(const CallRef& call, const Operation& operation);

}  // namespace tidepool::internal
