// kvctl namespace create, list, describe, split, drop, migrate, move, accept-loss.
#pragma once

#include <vector>

#include "cli/verb.h"

namespace tidepool::cli {

std::vector<Verb> NamespaceVerbs();

}  // namespace tidepool::cli
