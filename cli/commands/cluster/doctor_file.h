// kvctl doctor's look at the connection file and what lies beside it.
#pragma once

#include <optional>
#include <string>

#include "cli/commands/cluster/doctor_rules.h"
#include "proto/cluster_file/find.h"

namespace tidepool::cli {

// Finds the file as every program does and says where, whose, how old and how well guarded it is,
// and whether its cluster lives. `cluster`: --cluster, or empty. Returns it if a cluster may be
// reached by it; nullopt also where there is none, which is no problem unless one was named.
std::optional<cluster_file::Found> JudgeClusterFile(const std::string& cluster, Findings* findings);

}  // namespace tidepool::cli
