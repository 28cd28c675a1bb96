// kvctl bloom add, bloom has.
#pragma once

#include <vector>

#include "cli/verb.h"

namespace tidepool::cli {

std::vector<Verb> BloomVerbs();

}  // namespace tidepool::cli
