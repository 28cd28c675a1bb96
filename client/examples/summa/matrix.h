// The matrices A and B by their entries, blocks of them as doubles, and the checks of C = A x B
// that do not need a second product.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace summa {

constexpr int kBlock = 512;  // Rows and columns of a block: 2 MiB of doubles.
constexpr std::size_t kBlockEntries = std::size_t{kBlock} * kBlock;

enum class Matrix : std::uint64_t { kA = 1, kB = 2 };

// Small integers: every sum of products stays below 2^53, so C is exact in any order.
inline std::int64_t EntryOf(std::uint64_t seed, Matrix matrix, std::uint64_t i, std::uint64_t j) {
  std::uint64_t x = seed ^ (static_cast<std::uint64_t>(matrix) << 62) ^ (i << 31) ^ j;
  x += 0x9E3779B97F4A7C15ull;  // splitmix64
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  x ^= x >> 31;
  return static_cast<std::int64_t>(x & 15) - 8;
}

// Row by row, of block row `row` and block column `column`.
std::vector<double> MakeBlock(std::uint64_t seed, Matrix matrix, int row, int column);

// Lets MultiplyAdd work in the calling thread only.
void UseOneThread();

// Adds a x b to c, by OpenBLAS where it is installed and by plain loops elsewhere.
void MultiplyAdd(const std::vector<double>& a, const std::vector<double>& b,
                 std::vector<double>* c);

// Freivalds: C = A x B if C x = A (B x) for random vectors x. A wrong C passes a vector by chance
// at most once in 2^11, because the numbers are integers modulo 2^64. A and B are computed again.
class Freivalds {
 public:
  static constexpr int kVectors = 4;

  Freivalds(std::uint64_t seed, int n);
  // Begins the rows of a block row of C. The blocks of the row follow in any order, then
  // Differences.
  void BeginRow(int row);
  void Add(const std::vector<double>& block, int column);
  // Returns the number of wrong entries of this block row: C x differs from A (B x), or C has no
  // integer.
  std::uint64_t Differences();

 private:
  const std::uint64_t seed_;
  const int n_;
  std::vector<std::uint64_t> x_;   // kVectors numbers for each row.
  std::vector<std::uint64_t> bx_;  // B x.
  int row_ = 0;
  std::vector<std::uint64_t> cx_;  // C x, for the rows of a block.
  std::uint64_t not_integers_ = 0;
};

}  // namespace summa
