// "Did you mean": the name that a misspelt name most likely stands for.
//
//   kvctl's verbs and options, kvd's options, kinds -> [nearest] -> a message's remedy
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tidepool {

// Counts the steps between two words: insert, delete, replace, swap neighbours.
std::size_t EditDistance(std::string_view a, std::string_view b);

// Looks for the candidate nearest to `name`. A third of the letters may differ, but at least 1, and
// 2 in names above three letters. The beginning of a candidate and a whole part between dashes
// count as 1.5 steps: "cor" for "cores", "items" for "expected-items". The first of equally near
// candidates wins.
class Nearest {
 public:
  explicit Nearest(std::string_view name);

  void Consider(std::string_view candidate);
  // Returns "" if no candidate is near enough.
  const std::string& found() const { return found_; }

 private:
  std::string name_;
  std::size_t cost_;  // Candidates need less.
  std::string found_;
};

}  // namespace tidepool
