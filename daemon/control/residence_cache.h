// Where the records of each namespace are, on this node: looked at now and then, for who watches.
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

// Thread-safe. A look takes the cores some milliseconds, so each namespace has one in ten seconds
// at most, however many ask, and a call makes at most two.
class ResidenceCache {
 public:
  // Looks again at those of `spaces` whose last look is oldest, unless somebody does already.
  void Refresh(CoreGroup* cores, const std::vector<NamespaceId>& spaces, Deadline deadline);
  // As it was at the last look; nothing: there was none.
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
