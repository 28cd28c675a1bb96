// The tree of client/examples/tree by companion processes: the same four steps, each node looked up
// by a message of its own, as PDHT's program does.
#pragma once

#include <cstdint>

#include "tests/bench/baselines/companion.h"
#include "tests/bench/baselines/ranks.h"

namespace tidepool::baselines {

struct TreeProblem {
  std::uint64_t centres = 12;
  int levels = 8;
  int axis = 0;
  bool verify = false;  // Against a run in one process's memory.
};

// All clients call it. The first prints the phases, and how many look-ups they took.
void RunCompanionTree(const Ranks& clients, const TreeProblem& problem, CompanionClient* table);

}  // namespace tidepool::baselines
