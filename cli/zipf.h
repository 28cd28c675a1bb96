// Random ranks with a popularity of rank^-exponent, for bench.
//
// Rejection-inversion after W. Hoermann and G. Derflinger, "Rejection-inversion to generate
// variates from monotone discrete distributions" (1996): no table, so 10^9 keys need no memory.
#pragma once

#include <cstdint>
#include <random>

namespace tidepool::cli {

// Immutable; may be used by many threads, each with its own generator.
class Zipf {
 public:
  // Ranks 0 .. count - 1; exponent 0 is uniform. REQUIRES: count > 0, exponent >= 0.
  Zipf(std::uint64_t count, double exponent);

  std::uint64_t operator()(std::mt19937_64& random) const;

 private:
  double Integral(double x) const;
  double InverseIntegral(double x) const;
  double Weight(double x) const;

  double count_;
  double exponent_;
  double from_;
  double to_;
  double always_;
};

}  // namespace tidepool::cli
