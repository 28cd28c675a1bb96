// kvctl ping.
#pragma once

#include <vector>

#include "cli/verb.h"

namespace tidepool::cli {

std::vector<Verb> PingVerbs();

}  // namespace tidepool::cli
