// Where the coordinator keeps its state.
//
//   membership/coordinator -> [cluster_store] -> a file (embedded_store), later also etcd
#pragma once

#include <optional>
#include <string>

#include "daemon/membership/cluster_state.h"

namespace tidepool::daemon {

// One coordinator uses it, under its own lock.
class ClusterStore {
 public:
  virtual ~ClusterStore() = default;

  // What was saved last; nothing if this is a new cluster.
  // Errors: kDataLoss (damaged), kPermissionDenied, kUnavailable.
  virtual Result<std::optional<ClusterState>> Load() = 0;

  // Durable when it returns OK; the coordinator publishes only then. `previous` is the epoch that
  // the caller believes to be saved (0: none): another coordinator that saved meanwhile is noticed.
  // Errors: kAborted (another epoch is saved), kResourceExhausted (disk), kPermissionDenied,
  // kUnavailable; the saved state is then the old one, or after kUnavailable either.
  virtual Status Save(const ClusterState& next, Epoch previous) = 0;

  // The cluster has ended for good: the state goes.
  virtual Status Retire() = 0;

  // For people.
  virtual std::string Describe() const = 0;
};

}  // namespace tidepool::daemon
