// Items on their way from a queue to standard output: an item leaves the queue when it is printed.
//
// kvctl pop: PopMany under a lease -> output.h -> [SettleItems] => Ack or Nack
#pragma once

#include <tidepool/bytes_queue.h>

#include <chrono>
#include <cstddef>

#include "proto/base/status.h"

namespace tidepool::cli {

// Longest time to print the items of a call. If kvctl is killed between pop and print, an item is
// ready again after this time.
inline constexpr std::chrono::milliseconds kPrintLease{600'000};

// Ends the leases of `batch`. The first `printed` items are removed from the queue, if `removes` is
// true. The rest go back to their places. `receipt`: for the removals; null: not wanted.
// Errors: the error of the first failed removal; its item may be delivered again.
Status SettleItems(const BytesItems& items, const ItemBatch& batch, std::size_t printed,
                   bool removes, Receipt* receipt);

}  // namespace tidepool::cli
