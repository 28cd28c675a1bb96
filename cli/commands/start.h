// kvctl start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/verb.h"

namespace tidepool::cli {

std::vector<Verb> StartVerbs();

// What start and run have in common: where the daemons run and what they get.
std::vector<Option> WhereOptions();

// In the folder of a cluster's logs: the process of this machine, and its host, that ends once all
// daemons have (LaunchRecord in start.cc); stop waits for it.
inline constexpr const char* kLaunchRecordName = "launched.json";
std::string LogFolderOf(const std::string& cluster_file);

}  // namespace tidepool::cli
