// How operations on items that leave a queue are started, for bytes_queue and queue_lanes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "client/calls.h"
#include "client/space.h"
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

}  // namespace tidepool::internal
