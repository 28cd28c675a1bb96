// The cluster's state in two files of the coordinator's data folder: a whole state, and the changes
// since. A change costs an append and one fsync, however large the state is.
#pragma once

#include <string>

#include "daemon/membership/cluster_store.h"
#include "daemon/membership/state_journal.h"
#include "proto/cluster_file/cluster_file.h"

namespace tidepool::daemon {

// The folder is held by the node's Identity, so no other process writes there.
class EmbeddedStore final : public ClusterStore {
 public:
  explicit EmbeddedStore(const std::string& folder)
      : path_(folder + "/" + cluster_file::kCoordinatorStateName), journal_(path_ + ".log") {}

  Result<std::optional<ClusterState>> Load() override;
  // Appends the change. Writes the whole state, by a temporary file and rename, when the changes
  // have outgrown it. A crash leaves the old state or the new.
  Status Save(const ClusterState& next, Epoch previous) override;
  Status Retire() override;
  std::string Describe() const override { return path_; }

 private:
  const std::string path_;
  Status SaveWhole(const ClusterState& next);
  bool MustSaveWhole(const ClusterState& next) const;

  StateJournal journal_;
  Epoch saved_;
  ClusterState last_;              // As saved; shares its namespaces with the coordinator.
  std::uint64_t whole_bytes_ = 0;  // Of the whole state; 0: it must be written.
};

}  // namespace tidepool::daemon
