// Spreads numbers as a hash does; the same for the baselines and our side, so that both meet the
// same keys in the same order.
#pragma once

#include <cstdint>

namespace tidepool::baselines {

inline std::uint64_t Mix(std::uint64_t key) {
  key = (key ^ (key >> 32)) * 0x9e3779b97f4a7c15ull;
  key = (key ^ (key >> 29)) * 0xbf58476d1ce4e5b9ull;
  return key ^ (key >> 32);
}

}  // namespace tidepool::baselines
