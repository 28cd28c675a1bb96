// Seeded random numbers for tests. Each run takes a new seed and prints it. TP_TEST_SEED repeats a
// run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "proto/base/bytes.h"

namespace tidepool::test {

class Random {
 public:
  // `name` says in the output which test the seed belongs to.
  explicit Random(const char* name) : Random(name, SeedOfRun()) {}
  Random(const char* name, std::uint64_t seed) : seed_(seed), engine_(seed) {
    std::printf("%s: TP_TEST_SEED=%llu\n", name, static_cast<unsigned long long>(seed));
  }

  std::uint64_t seed() const { return seed_; }
  std::uint64_t Word() { return engine_(); }
  // 0 .. bound - 1; `bound` above 0. The bias of a 64-bit modulo does not matter to a test.
  std::uint64_t Below(std::uint64_t bound) { return engine_() % bound; }
  bool OneIn(std::uint64_t n) { return Below(n) == 0; }
  // Returns small sizes often and large sizes seldom, for boundaries and for speed.
  std::size_t Size(std::size_t max) {
    const std::uint64_t shape = Below(8);
    if (shape == 0) return 0;
    if (shape == 1) return Below(max + 1);
    return Below((max < 64 ? max : 64) + 1);
  }
  std::vector<std::byte> Bytes(std::size_t size) {
    std::vector<std::byte> bytes(size);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(engine_());
    return bytes;
  }

 private:
  static std::uint64_t SeedOfRun() {
    const char* given = std::getenv("TP_TEST_SEED");
    return given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
  }

  std::uint64_t seed_;
  std::mt19937_64 engine_;
};

}  // namespace tidepool::test
