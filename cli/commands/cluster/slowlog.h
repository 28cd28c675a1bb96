// kvctl slowlog: the last frames and operations that took long.
#pragma once

#include <vector>

#include "cli/verb.h"

namespace tidepool::cli {

std::vector<Verb> SlowLogVerbs();

}  // namespace tidepool::cli
