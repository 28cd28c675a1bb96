// The cells of the tree, and the rule for their existence. A cell is a cube, and an inner cell has
// eight children.
#pragma once

#include <cstdint>
#include <vector>

namespace tree {

constexpr int kLevelsMax = 10;  // Deeper, sums of doubles would be rounded.
constexpr int kCoordinateBits = 20;

inline std::uint64_t SplitMix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// A cell of level n has 2^n cells along each axis beside it.
struct Cell {
  int n = 0;
  std::uint32_t at[3] = {0, 0, 0};

  // Its key in the cluster.
  std::uint64_t Key() const {
    return std::uint64_t(n) << 60 ^ std::uint64_t{at[0]} << 40 ^ std::uint64_t{at[1]} << 20 ^ at[2];
  }
  static Cell Of(std::uint64_t key) {
    const auto coordinate = [&](int shift) {
      return static_cast<std::uint32_t>(key >> shift & ((1u << kCoordinateBits) - 1));
    };
    return {static_cast<int>(key >> 60), {coordinate(40), coordinate(20), coordinate(0)}};
  }
  // Child number j = 4 bx + 2 by + bz.
  Cell Child(unsigned j) const {
    return {n + 1, {at[0] * 2 + (j >> 2 & 1), at[1] * 2 + (j >> 1 & 1), at[2] * 2 + (j & 1)}};
  }
  Cell Parent() const { return {n - 1, {at[0] / 2, at[1] / 2, at[2] / 2}}; }
  // The cell of its level beside it; space is periodic.
  Cell Beside(int axis, int by) const {
    Cell other = *this;
    other.at[axis] = (at[axis] + static_cast<std::uint32_t>(by)) & ((1u << n) - 1);
    return other;
  }
};

// The value of a leaf.
inline double LeafValue(const Cell& cell) {
  return static_cast<double>(SplitMix64(cell.Key()) & ((1u << kCoordinateBits) - 1));
}

// Where the tree is deep: around points.
struct Centre {
  std::uint32_t at[3];
};
std::vector<Centre> MakeCentres(std::uint64_t count);
// Returns the `centres` beside or in the cell. Centres near a cell are near its parent too, so a
// walk downwards hands on the remaining centres.
std::vector<Centre> Near(const Cell& cell, const std::vector<Centre>& centres);
// True if a cell with `near` centres has children.
inline bool IsRefined(const Cell& cell, int levels, const std::vector<Centre>& near) {
  return cell.n < 2 || (cell.n < levels && !near.empty());
}

}  // namespace tree
