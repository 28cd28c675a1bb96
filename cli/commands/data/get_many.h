// kvctl get of several keys.
#pragma once

#include <string>
#include <vector>

#include "proto/base/status.h"

namespace tidepool::cli {

class Invocation;

// Prints the records of `keys`, in their order, each as the line that dump prints: bytes of any
// kind survive it, and load reads it. Errors: kNotFound (keys that are missing, each in a line on
// standard error, behind all others), kDataLoss and others of single keys, and of the call.
Status GetMany(Invocation& run, const std::vector<std::string>& keys);

}  // namespace tidepool::cli
