// Where something lies in the memory of the ranks.
#pragma once

#include <cstddef>

namespace tidepool::baselines {

// In whose window, and how far from its beginning.
struct Place {
  int rank = 0;
  std::size_t at = 0;
};

}  // namespace tidepool::baselines
