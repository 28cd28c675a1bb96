// The number that stands for the runs of a phase, the same on both sides of a figure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tidepool::baselines {

// The median of one member of the samples; of an even count the upper of the two in the middle.
// REQUIRES: there is one.
template <typename Sample>
double MedianOf(const std::vector<Sample>& samples, double Sample::*member) {
  std::vector<double> numbers;
  for (const Sample& sample : samples) numbers.push_back(sample.*member);
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

}  // namespace tidepool::baselines
