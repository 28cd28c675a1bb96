#include "cli/zipf.h"

#include <algorithm>
#include <cmath>

#include "proto/base/check.h"

namespace tidepool::cli {
namespace {

// (exp(x) - 1) / x and log(1 + x) / x, also near 0.
double ExpM1OverX(double x) { return std::abs(x) > 1e-8 ? std::expm1(x) / x : 1 + x / 2; }
double Log1POverX(double x) { return std::abs(x) > 1e-8 ? std::log1p(x) / x : 1 - x / 2; }

}  // namespace

Zipf::Zipf(std::uint64_t count, double exponent)
    : count_(static_cast<double>(count)), exponent_(exponent) {
  TP_CHECK(count > 0 && exponent >= 0);
  from_ = Integral(1.5) - 1;
  to_ = Integral(count_ + 0.5);
  always_ = 2 - InverseIntegral(Integral(2.5) - Weight(2));
}

// Integral of x^-exponent, in terms that stay exact at exponent 1.
double Zipf::Integral(double x) const {
  const double log_x = std::log(x);
  return ExpM1OverX((1 - exponent_) * log_x) * log_x;
}

double Zipf::InverseIntegral(double x) const {
  const double t = std::max(x * (1 - exponent_), -1.0);
  return std::exp(Log1POverX(t) * x);
}

double Zipf::Weight(double x) const { return std::exp(-exponent_ * std::log(x)); }

std::uint64_t Zipf::operator()(std::mt19937_64& random) const {
  std::uniform_real_distribution<double> uniform(0, 1);
  for (;;) {
    const double u = to_ + uniform(random) * (from_ - to_);
    const double x = InverseIntegral(u);
    const double rank = std::clamp(std::floor(x + 0.5), 1.0, count_);
    if (rank - x <= always_ || u >= Integral(rank + 0.5) - Weight(rank)) {
      return static_cast<std::uint64_t>(rank) - 1;
    }
  }
}

}  // namespace tidepool::cli
