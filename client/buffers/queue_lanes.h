// Queues with lanes: one queue of several partitions, each of them first in, first out.
//
//   bytes_queue -> [queue_lanes] -> queue_calls
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "client/calls/queue_calls.h"

namespace tidepool::internal {

// The lengths of all lanes at once, in their order.
CallRef StartLengths(const Namespace& handle, std::chrono::milliseconds timeout);

// False: no lane has ready items, or those that may have some do not answer.
bool FindLaneWithItems(const Namespace& space, std::chrono::milliseconds timeout,
                       std::uint32_t* lane);

// Up to `items_max`, from the handle's own lane first, then from those that have some; waits as
// `options` say. May return none. What was taken before a failure comes with it:
// ItemBatch::status().
Result<ItemBatch> PopFromLanes(const Namespace& space, std::size_t items_max,
                               const PopOptions& options);

}  // namespace tidepool::internal
