// kvctl start --local, stop.
#pragma once

#include <vector>

#include "cli/verb.h"

namespace tidepool::cli {

std::vector<Verb> LocalVerbs();

}  // namespace tidepool::cli
