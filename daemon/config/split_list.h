// Options that are lists separated by commas.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace tidepool::daemon {

// Returns the non-empty parts between commas.
inline std::vector<std::string> SplitList(const std::string& list) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    if (end > at) parts.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

}  // namespace tidepool::daemon
