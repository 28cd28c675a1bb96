// kvctl load.
#pragma once

#include <vector>

#include "cli/verb.h"

namespace tidepool::cli {

std::vector<Verb> LoadVerbs();

}  // namespace tidepool::cli
