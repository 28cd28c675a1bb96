#include "proto/base/nearest.h"

#include <algorithm>
#include <vector>

namespace tidepool {
namespace {

// Below this a part of a name says too little: "on" of "on-loss".
constexpr std::size_t kPartLettersMin = 4;
constexpr std::size_t kBeginLettersMin = 3;
// A part of a name is nearer than 2 wrong letters, and farther than 1 wrong letter.
constexpr std::size_t kStepCost = 2;
constexpr std::size_t kPartCost = 3;

// Returns whether `part` stands in `name` between its ends and dashes.
bool IsPartOf(std::string_view part, std::string_view name) {
  if (part.size() < kPartLettersMin) return false;
  for (std::size_t at = name.find(part); at != std::string_view::npos;
       at = name.find(part, at + 1)) {
    const std::size_t end = at + part.size();
    if ((at == 0 || name[at - 1] == '-') && (end == name.size() || name[end] == '-')) return true;
  }
  return false;
}

}  // namespace

std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> steps(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) steps[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) steps[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = steps[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      steps[i][j] = std::min({steps[i - 1][j] + 1, steps[i][j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        steps[i][j] = std::min(steps[i][j], steps[i - 2][j - 2] + 1);
      }
    }
  }
  return steps[a.size()][b.size()];
}

Nearest::Nearest(std::string_view name)
    : name_(name),
      cost_(kStepCost * (std::max<std::size_t>(name.size() < 4 ? 1 : 2, name.size() / 3) + 1)) {}

void Nearest::Consider(std::string_view candidate) {
  std::size_t cost = kStepCost * EditDistance(name_, candidate);
  const bool begins = name_.size() >= kBeginLettersMin && candidate.starts_with(name_);
  if (begins || IsPartOf(name_, candidate) || IsPartOf(candidate, name_)) {
    cost = std::min(cost, kPartCost);
  }
  if (cost >= cost_) return;
  cost_ = cost;
  found_ = candidate;
}

}  // namespace tidepool
