// The cluster's state in a file of the coordinator's data folder.
#pragma once

#include <string>

#include "daemon/membership/cluster_store.h"
#include "proto/cluster_file/cluster_file.h"

namespace tidepool::daemon {

// The folder is held by the node's Identity, so no other process writes there.
class EmbeddedStore final : public ClusterStore {
 public:
  explicit EmbeddedStore(const std::string& folder)
      : path_(folder + "/" + cluster_file::kCoordinatorStateName) {}

  Result<std::optional<ClusterState>> Load() override;
  // A temporary file, fsync, rename, fsync of the folder: a crash leaves the old state or the new.
  Status Save(const ClusterState& next, Epoch previous) override;
  Status Retire() override;
  std::string Describe() const override { return path_; }

 private:
  const std::string path_;
  Epoch saved_;
};

}  // namespace tidepool::daemon
