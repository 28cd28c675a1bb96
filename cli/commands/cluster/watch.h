// kvctl watch: a key's value each time it changes.
#pragma once

#include <vector>

#include "cli/verb.h"

namespace tidepool::cli {

std::vector<Verb> WatchVerbs();

}  // namespace tidepool::cli
