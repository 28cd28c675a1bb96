// kvctl mount and umount.
#pragma once

#include <vector>

#include "cli/verb.h"

namespace tidepool::cli {

std::vector<Verb> MountVerbs();

}  // namespace tidepool::cli
