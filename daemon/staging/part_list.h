// A node's part of a namespace as files: its manifest entries, and records without an entry.
//
//   cluster_view (same node) or Staging.ListPart -> [part_list] -> storage/hash_store
#pragma once

#include <functional>
#include <vector>

#include "daemon/staging/store_access.h"
#include "tidepool/v1/staging.pb.h"

namespace tidepool::daemon::staging {

// Calls `take` with batches of at most 256 items, the last batch with done = true. The order has no
// meaning. Omits entries with content that was deleted by key. Content written by key has fresh =
// true, mode 0644 (or the mode of the replaced file) and the present time.
// Errors: kUnavailable (a partition of this node is not served), kDeadlineExceeded, kCancelled
// (`take` returned false), kDataLoss (unreadable records, or a partition has lost its data; with
// request.skip_lost() these are skipped).
Status ListPart(RequestRouter* router, std::shared_ptr<const placement::Namespace> space,
                const v1::ListPartRequest& request,
                const std::function<bool(const v1::ListPartResponse&)>& take);

// Returns the sum of the change counters of this node's partitions of a namespace.
Result<std::uint64_t> ChangesOf(const RequestRouter& router, const placement::Namespace& space);

}  // namespace tidepool::daemon::staging
