// Decides whether the history of an object is linearizable.
//
//   history, models -> [checker] -> minimise, tests
//
// Wing and Gong's search for an order that respects real time and the model, with Lowe's memo of
// configurations (set of operations done, state). Objects are checked apart: an object-by-object
// check is exact, because linearizability is local (Herlihy and Wing; Horn and Kroening use it as
// P-compositionality).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/history/history.h"
#include "tests/history/models.h"

namespace tidepool::history {

enum class Verdict : std::uint8_t {
  kLinearizable,
  kViolation,
  kUndecided,  // The search was given up after `steps_max` steps.
};

struct CheckOptions {
  std::uint64_t steps_max = 3'000'000;
};

struct CheckResult {
  Verdict verdict = Verdict::kLinearizable;
  std::uint64_t steps = 0;
  // The longest order that was found: indexes into the history. Of a linearizable history, all
  // operations that took effect.
  std::vector<std::size_t> order;
  State state;  // Behind `order`.
};

// `history` is that of a single object, in any order.
CheckResult Check(const Model& model, const History& history, const CheckOptions& options = {});

// Describes the longest order and the operations that do not fit behind it.
std::string Explain(const Model& model, const History& history, const CheckResult& result);

}  // namespace tidepool::history
