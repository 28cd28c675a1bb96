// Where each namespace's records are on this node (memory or device), sampled for status displays.
//
//   services/node_status -> [control/residence_cache] -> daemon/core/residence -> cores
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "daemon/core/core_group.h"
#include "proto/base/clock.h"
#include "proto/base/ids.h"
#include "storage/residence.h"

namespace tidepool::daemon {

// Thread-safe. A sample occupies the cores for some milliseconds. So each namespace is sampled at
// most once in ten seconds, however many callers ask, and a call makes at most two samples.
class ResidenceCache {
 public:
  // Samples again the namespaces of `spaces` with the oldest samples, unless another call does
  // already.
  void Refresh(CoreGroup* cores, const std::vector<NamespaceId>& spaces, Deadline deadline);
  // Returns the last sample; nothing if there was none.
  std::optional<storage::Residence> Find(NamespaceId space) const;

 private:
  struct Look {
    std::uint64_t at_ns = 0;
    storage::Residence found;
  };
  std::mutex refreshing_;
  mutable std::mutex mutex_;
  std::map<NamespaceId, Look> looks_;
};

}  // namespace tidepool::daemon
