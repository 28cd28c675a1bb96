// kvctl snapshot create, restore and check.
#pragma once

#include <vector>

#include "cli/verb.h"

namespace tidepool::cli {

std::vector<Verb> SnapshotVerbs();

}  // namespace tidepool::cli
