// kvctl put, get, delete, exists, ttl.
#pragma once

#include <vector>

#include "cli/verb.h"

namespace tidepool::cli {

std::vector<Verb> DataVerbs();

}  // namespace tidepool::cli
