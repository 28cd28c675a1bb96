// kvctl top: shows the present work of the cluster, repeatedly.
#pragma once

#include <vector>

#include "cli/verb.h"

namespace tidepool::cli {

std::vector<Verb> TopVerbs();

}  // namespace tidepool::cli
