#include "client/examples/tree/cell.h"

#include <cstdlib>

namespace tree {

std::vector<Centre> MakeCentres(std::uint64_t count) {
  std::vector<Centre> centres(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    for (std::uint64_t a = 0; a < 3; ++a) {
      centres[i].at[a] =
          static_cast<std::uint32_t>(SplitMix64(3 * i + a) & ((1u << kCoordinateBits) - 1));
    }
  }
  return centres;
}

std::vector<Centre> Near(const Cell& cell, const std::vector<Centre>& centres) {
  std::vector<Centre> near;
  for (const Centre& centre : centres) {
    bool is_near = true;
    for (int a = 0; a < 3; ++a) {
      const auto at = static_cast<std::int64_t>(centre.at[a] >> (kCoordinateBits - cell.n));
      is_near = is_near && std::abs(at - static_cast<std::int64_t>(cell.at[a])) <= 1;
    }
    if (is_near) near.push_back(centre);
  }
  return near;
}

}  // namespace tree
