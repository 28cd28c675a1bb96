// The entries of the example's matrices, and errors that its check finds.
#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <vector>

#include "client/examples/summa/matrix.h"

namespace summa {
namespace {

constexpr int kCount = 2;  // Blocks in a row.
constexpr std::uint64_t kSeed = 7;

using Product = std::vector<std::vector<double>>;

Product Multiply() {
  Product c;
  for (int i = 0; i < kCount; ++i) {
    for (int j = 0; j < kCount; ++j) {
      std::vector<double> block(kBlockEntries);
      for (int k = 0; k < kCount; ++k) {
        MultiplyAdd(MakeBlock(kSeed, Matrix::kA, i, k), MakeBlock(kSeed, Matrix::kB, k, j), &block);
      }
      c.push_back(std::move(block));
    }
  }
  return c;
}

std::uint64_t DifferencesOf(const Product& c) {
  Freivalds freivalds(kSeed, kCount * kBlock);
  std::uint64_t differences = 0;
  for (int i = 0; i < kCount; ++i) {
    freivalds.BeginRow(i);
    for (int j = 0; j < kCount; ++j) {
      freivalds.Add(c[static_cast<std::size_t>(i * kCount + j)], j);
    }
    differences += freivalds.Differences();
  }
  return differences;
}

TEST_CASE("EntriesAreSmallIntegersOfBothSigns") {
  std::int64_t least = 0;
  std::int64_t greatest = 0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    for (std::uint64_t j = 0; j < 100; ++j) {
      least = std::min(least, EntryOf(kSeed, Matrix::kA, i, j));
      greatest = std::max(greatest, EntryOf(kSeed, Matrix::kA, i, j));
    }
  }
  CHECK(least == -8);
  CHECK(greatest == 7);
}

TEST_CASE("AnEntryOfTheProductIsTheSumOfProductsOfEntries") {
  const Product c = Multiply();
  for (const std::uint64_t at : {0ull, 511ull, 512ull, 1'023ull}) {
    std::int64_t sum = 0;
    for (std::uint64_t k = 0; k < kCount * kBlock; ++k) {
      sum += EntryOf(kSeed, Matrix::kA, at, k) * EntryOf(kSeed, Matrix::kB, k, 600);
    }
    const auto& block = c[at / kBlock * kCount + 1];
    CHECK(block[at % kBlock * kBlock + 600 - kBlock] == static_cast<double>(sum));
  }
}

TEST_CASE("FreivaldsFindsNothingInTheProduct") { CHECK(DifferencesOf(Multiply()) == 0); }

TEST_CASE("FreivaldsFindsOneWrongEntry") {
  const Product right = Multiply();
  const auto seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 5; ++round) {
    Product wrong = right;
    wrong[random() % wrong.size()][random() % kBlockEntries] += 1;
    CHECK(DifferencesOf(wrong) > 0);
  }
}

TEST_CASE("FreivaldsFindsTwoBlocksInEachOthersPlace") {
  Product wrong = Multiply();
  std::swap(wrong[1], wrong[2]);
  CHECK(DifferencesOf(wrong) > 0);
}

TEST_CASE("FreivaldsFindsWhatIsNoInteger") {
  Product wrong = Multiply();
  wrong[3][9] += 0.25;
  CHECK(DifferencesOf(wrong) > 0);
  wrong[3][9] = 0x1p60;
  CHECK(DifferencesOf(wrong) > 0);
}

}  // namespace
}  // namespace summa
