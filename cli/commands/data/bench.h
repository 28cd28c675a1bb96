// kvctl bench.
#pragma once

#include <vector>

#include "cli/verb.h"

namespace tidepool::cli {

std::vector<Verb> BenchVerbs();

}  // namespace tidepool::cli
