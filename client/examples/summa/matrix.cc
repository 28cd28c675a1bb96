#include "client/examples/summa/matrix.h"

#ifdef SUMMA_OPENBLAS
#include <cblas.h>
#endif

#include <cmath>

namespace summa {

std::vector<double> MakeBlock(std::uint64_t seed, Matrix matrix, int row, int column) {
  std::vector<double> block(kBlockEntries);
  const auto first_row = static_cast<std::uint64_t>(row) * kBlock;
  const auto first_column = static_cast<std::uint64_t>(column) * kBlock;
  for (std::uint64_t i = 0; i < kBlock; ++i) {
    for (std::uint64_t j = 0; j < kBlock; ++j) {
      block[i * kBlock + j] =
          static_cast<double>(EntryOf(seed, matrix, first_row + i, first_column + j));
    }
  }
  return block;
}

#ifdef SUMMA_OPENBLAS

void UseOneThread() { openblas_set_num_threads(1); }

void MultiplyAdd(const std::vector<double>& a, const std::vector<double>& b,
                 std::vector<double>* c) {
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kBlock, kBlock, kBlock, 1.0, a.data(),
              kBlock, b.data(), kBlock, 1.0, c->data(), kBlock);
}

#else

void UseOneThread() {}

void MultiplyAdd(const std::vector<double>& a, const std::vector<double>& b,
                 std::vector<double>* c) {
  for (std::size_t i = 0; i < kBlock; ++i) {
    double* const sums = c->data() + i * kBlock;
    for (std::size_t k = 0; k < kBlock; ++k) {
      const double factor = a[i * kBlock + k];
      const double* const row = b.data() + k * kBlock;
      for (std::size_t j = 0; j < kBlock; ++j) sums[j] += factor * row[j];
    }
  }
}

#endif

Freivalds::Freivalds(std::uint64_t seed, int n)
    : seed_(seed),
      n_(n),
      x_(static_cast<std::size_t>(n) * kVectors),
      bx_(x_.size()),
      cx_(std::size_t{kBlock} * kVectors) {
  std::uint64_t state = seed + 0x5EEDull;
  for (std::uint64_t& number : x_) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    number = state ^ (state >> 29);
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    std::uint64_t sums[kVectors] = {};
    for (std::size_t j = 0; j < static_cast<std::size_t>(n); ++j) {
      const auto entry = static_cast<std::uint64_t>(EntryOf(seed, Matrix::kB, i, j));
      for (int v = 0; v < kVectors; ++v) sums[v] += entry * x_[j * kVectors + v];
    }
    for (int v = 0; v < kVectors; ++v) bx_[i * kVectors + v] = sums[v];
  }
}

void Freivalds::BeginRow(int row) {
  row_ = row;
  not_integers_ = 0;
  cx_.assign(cx_.size(), 0);
}

void Freivalds::Add(const std::vector<double>& block, int column) {
  for (std::size_t i = 0; i < kBlock; ++i) {
    for (std::size_t j = 0; j < kBlock; ++j) {
      const double value = block[i * kBlock + j];
      // Below 2^53 an integer in a double is exact.
      if (!(std::fabs(value) < 0x1p53) || value != std::floor(value)) {
        ++not_integers_;
        continue;
      }
      const auto entry = static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
      const std::size_t at = (static_cast<std::size_t>(column) * kBlock + j) * kVectors;
      for (int v = 0; v < kVectors; ++v) cx_[i * kVectors + v] += entry * x_[at + v];
    }
  }
}

std::uint64_t Freivalds::Differences() {
  std::uint64_t differences = not_integers_;
  for (std::size_t i = 0; i < kBlock; ++i) {
    std::uint64_t sums[kVectors] = {};
    const std::uint64_t row = static_cast<std::uint64_t>(row_) * kBlock + i;
    for (std::size_t j = 0; j < static_cast<std::size_t>(n_); ++j) {
      const auto entry = static_cast<std::uint64_t>(EntryOf(seed_, Matrix::kA, row, j));
      for (int v = 0; v < kVectors; ++v) sums[v] += entry * bx_[j * kVectors + v];
    }
    for (int v = 0; v < kVectors; ++v) differences += sums[v] != cx_[i * kVectors + v] ? 1 : 0;
  }
  return differences;
}

}  // namespace summa
