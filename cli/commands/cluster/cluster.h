// kvctl status, locate, config.
#pragma once

#include <vector>

#include "cli/verb.h"

namespace tidepool::cli {

std::vector<Verb> ClusterVerbs();

}  // namespace tidepool::cli
