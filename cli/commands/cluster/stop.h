// kvctl stop.
#pragma once

#include <string>
#include <vector>

#include "cli/verb.h"

namespace tidepool::cli {

std::vector<Verb> StopVerbs();

// Removes the folder of daemons that have ended, beside `cluster_file`. If the file is there the
// next cluster has begun, and the folder stays. Durable records lie elsewhere.
void RemoveFolderOf(const std::string& cluster_file);

}  // namespace tidepool::cli
