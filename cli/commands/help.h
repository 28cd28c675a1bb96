// kvctl help, version.
#pragma once

#include <vector>

#include "cli/verb.h"

namespace tidepool::cli {

std::vector<Verb> HelpVerbs();

}  // namespace tidepool::cli
