// kvctl hotkeys: the keys that were asked for most lately.
#pragma once

#include <vector>

#include "cli/verb.h"

namespace tidepool::cli {

std::vector<Verb> HotKeysVerbs();

}  // namespace tidepool::cli
