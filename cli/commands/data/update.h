// kvctl incr, append, apply, cas, expire.
#pragma once

#include <vector>

#include "cli/verb.h"

namespace tidepool::cli {

std::vector<Verb> UpdateVerbs();

}  // namespace tidepool::cli
