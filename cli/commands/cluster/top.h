// kvctl top: what the cluster does now, again and again.
#pragma once

#include <vector>

#include "cli/verb.h"

namespace tidepool::cli {

std::vector<Verb> TopVerbs();

}  // namespace tidepool::cli
