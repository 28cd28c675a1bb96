// Queues with lanes: a queue of several partitions, each first in, first out.
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

// Returns false if no lane has ready items, or if the lanes that may have items do not answer.
bool FindLaneWithItems(const Namespace& space, std::chrono::milliseconds timeout,
                       std::uint32_t* lane);

// Pops up to `items_max` items: first from the handle's own lane, then from lanes with items. Waits
// as `options` say. May return no item. After a failure the batch has the items taken before it,
// and the failure is in ItemBatch::status().
Result<ItemBatch> PopFromLanes(const Namespace& space, std::size_t items_max,
                               const PopOptions& options);

}  // namespace tidepool::internal
