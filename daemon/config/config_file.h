// The TOML file of --config: flat keys, one per option.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "proto/base/result.h"

namespace tidepool::daemon {

// Key -> value as text, in the file's order; any text gives pairs or a Status. Keys are not checked
// against the options here.
// Errors: kInvalidArgument (names the line), kNotFound, kPermissionDenied.
Result<std::vector<std::pair<std::string, std::string>>> ReadConfigFile(const std::string& path);

}  // namespace tidepool::daemon
