// kvctl doctor's checks of the connection file and the files beside it.
#pragma once

#include <optional>
#include <string>

#include "cli/commands/cluster/doctor_rules.h"
#include "proto/cluster_file/find.h"

namespace tidepool::cli {

// Finds the file like every program. Reports its path, owner, age and protection, and if its
// cluster lives. `cluster`: --cluster, or empty. Returns the file if it may lead to a cluster.
// Returns nullopt also if there is no file, which is a problem only if the user named a file.
std::optional<cluster_file::Found> JudgeClusterFile(const std::string& cluster, Findings* findings);

}  // namespace tidepool::cli
