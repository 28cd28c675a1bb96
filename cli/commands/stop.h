// kvctl stop.
#pragma once

#include <vector>

#include "cli/verb.h"

namespace tidepool::cli {

std::vector<Verb> StopVerbs();

}  // namespace tidepool::cli
