// The TOML file of --config: flat keys, one per option.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "proto/base/result.h"

namespace tidepool::daemon {

// Returns the pairs of key and value text, in the file's order. Does not compare the keys with the
// options.
// Errors: kInvalidArgument (names the line), kNotFound, kPermissionDenied.
Result<std::vector<std::pair<std::string, std::string>>> ReadConfigFile(const std::string& path);

}  // namespace tidepool::daemon
