// The help text of kvd check and kvd inspect, for kvd --help and kvd(1).
#pragma once

#include <string>

namespace tidepool::daemon {

// Returns two indented paragraphs, one per tool.
std::string NvmToolsHelp();

}  // namespace tidepool::daemon
