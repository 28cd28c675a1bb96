// Where the coordinator keeps its state.
//
//   membership/coordinator -> [cluster_store] -> a file (embedded_store) or etcd (etcd_store)
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/membership/cluster_state.h"

namespace tidepool::daemon {

// A process of a node. It counts as gone once its key in the store is absent or of another process.
struct DeadProcess {
  std::string uuid;  // Of the node.
  std::uint64_t incarnation = 0;

  friend bool operator==(const DeadProcess&, const DeadProcess&) = default;
};

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
  // kUnavailable (not reached, or this is not the coordinator any more); the saved state is then
  // the old one. kUnknown: either; this object then saves nothing more (kUnavailable), and the
  // coordinator has to begin anew from what it loads.
  virtual Status Save(const ClusterState& next, Epoch previous) = 0;

  // Saves only while all processes of `dead` are gone: the transaction itself requires it. Errors:
  // those of Save, kUnavailable (a process is alive; the saved state is the old one),
  // kUnimplemented (the store has no word of processes).
  virtual Status SaveIfDead(const ClusterState& /*next*/, Epoch /*previous*/,
                            const std::vector<DeadProcess>& /*dead*/) {
    return Status(StatusCode::kUnimplemented, "only etcd knows that a process is gone");
  }

  // True if KnowsAlive is certain without a lease's time: a process whose death the store hears of.
  virtual bool HearsOfDeaths() const { return false; }
  // Whether the last save may or may not be in the store: what the coordinator holds may be
  // replaced already. Only a new Load ends it. Thread-safe.
  virtual bool must_reload() const { return false; }
  // Whether the store itself has word of this process of a node, which then may serve although the
  // coordinator does not hear it. A file has none. Errors: those of Load.
  virtual Result<bool> KnowsAlive(const placement::Node& /*node*/) { return false; }

  // The cluster has ended for good: the state goes.
  virtual Status Retire() = 0;

  // For people.
  virtual std::string Describe() const = 0;
};

}  // namespace tidepool::daemon
