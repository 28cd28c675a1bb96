// kvctl push, pop, peek, ack, nack: on the SDK, since an item may be of any size.
#pragma once

#include <vector>

#include "cli/verb.h"

namespace tidepool::cli {

std::vector<Verb> QueueVerbs();

}  // namespace tidepool::cli
