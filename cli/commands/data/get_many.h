// kvctl get of several keys.
#pragma once

#include <string>
#include <vector>

#include "proto/base/status.h"

namespace tidepool::cli {

class Invocation;

// Prints the records of `keys`, in their order, each as a line of dump: bytes of any kind survive
// it, and load reads it. Errors: kNotFound (absent keys, each in a line on standard error, after
// all records), kDataLoss and others of single keys, and the errors of the call.
Status GetMany(Invocation& run, const std::vector<std::string>& keys);

}  // namespace tidepool::cli
