// Items on their way from a queue to standard output: an item leaves the queue when it is printed.
//
// kvctl pop: PopMany under a lease -> output.h -> [SettleItems] => Ack or Nack
#pragma once

#include <tidepool/bytes_queue.h>

#include <chrono>
#include <cstddef>

#include "proto/base/status.h"

namespace tidepool::cli {

// How long printing the items of one call may last. An item that a killed kvctl has popped and not
// printed is ready again when that time is over.
inline constexpr std::chrono::milliseconds kPrintLease{600'000};

// Ends the leases of `batch`: the first `printed` items are removed from the queue, if `removes` is
// true, and the others go back to their places. `receipt`: of the removals; null: not wanted.
// Errors: of the first removal that failed; the item may be delivered again.
Status SettleItems(const BytesItems& items, const ItemBatch& batch, std::size_t printed,
                   bool removes, Receipt* receipt);

}  // namespace tidepool::cli
