// Distance between two words, for "did you mean".
#pragma once

#include <cstddef>
#include <string_view>

namespace tidepool {

// Returns the steps between two words: insert, delete, replace, swap of neighbours.
std::size_t EditDistance(std::string_view a, std::string_view b);

}  // namespace tidepool
