// What one node holds of a namespace, seen as files: its manifest entries and the records that no
// entry describes.
//
//   cluster_view (same node) or Staging.ListPart -> [part_list] -> storage/hash_store
#pragma once

#include <functional>
#include <vector>

#include "daemon/staging/store_access.h"
#include "tidepool/v1/staging.pb.h"

namespace tidepool::daemon::staging {

// Calls `take` with batches of at most 256 items, the last with done = true. Items come in no
// order. An entry whose content was deleted by key is left out; content that was written by key has
// fresh = true, mode 0644 (or that of the file it replaced) and the present time.
// Errors: kUnavailable (a partition of this node is not served), kDeadlineExceeded, kCancelled
// (`take` returned false), kDataLoss (records cannot be read, or a partition has lost what it held;
// with request.skip_lost() these are passed over).
Status ListPart(RequestRouter* router, std::shared_ptr<const placement::Namespace> space,
                const v1::ListPartRequest& request,
                const std::function<bool(const v1::ListPartResponse&)>& take);

// The sum of the change counters of this node's partitions of a namespace.
Result<std::uint64_t> ChangesOf(const RequestRouter& router, const placement::Namespace& space);

}  // namespace tidepool::daemon::staging
