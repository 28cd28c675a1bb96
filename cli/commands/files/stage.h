// kvctl stage in, out, status, cancel.
#pragma once

#include <vector>

#include "cli/verb.h"

namespace tidepool::cli {

std::vector<Verb> StageVerbs();

}  // namespace tidepool::cli
