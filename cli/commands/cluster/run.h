// kvctl run: a program with a cluster of its own.
#pragma once

#include <vector>

#include "cli/verb.h"

namespace tidepool::cli {

std::vector<Verb> RunVerbs();

}  // namespace tidepool::cli
