// kvctl keys, count, dump.
#pragma once

#include <vector>

#include "cli/verb.h"

namespace tidepool::cli {

std::vector<Verb> ScanVerbs();

}  // namespace tidepool::cli
