// kvctl start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/verb.h"

namespace tidepool::cli {

std::vector<Verb> StartVerbs();

// Common options of start and run: places and options of the daemons.
std::vector<Option> WhereOptions();

// In the folder of a cluster's logs, by start: its host, the daemons that it started there, and the
// process that ends once all daemons have, for which stop waits.
inline constexpr const char* kLaunchRecordName = "launched.json";
std::string LogFolderOf(const std::string& cluster_file);

// Kills the daemons that start has begun on this machine for `cluster_file`. Returns how many
// lived.
std::size_t KillLaunched(const std::string& cluster_file);

}  // namespace tidepool::cli
