// Checks of the tree's answers, and the files that hold them.
#pragma once

#include <tidepool/tidepool.h>

#include <cstdint>
#include <string>

#include "client/examples/support/team.h"
#include "client/examples/tree/forms.h"

namespace tree {

struct Problem {
  std::uint64_t centres = 0;
  int levels = 0;
  int axis = 0;
};

struct Sizes {
  std::uint64_t nodes = 0;
  std::uint64_t leaves = 0;
  std::uint64_t derivatives = 0;
};
// All processes call it. Errors: as an iteration, kAborted.
tidepool::Result<Sizes> SizesOf(const Forms& forms, support::Team* team);

// Compares the answers with each other, and the forms with the forms of a single process. All
// processes call it. Errors: kDataLoss (wrong results; the text names them), and the errors of an
// iteration.
tidepool::Status Check(const Problem& problem, Forms* forms, support::Team* team);

// Writes FOLDER/project, FOLDER/compress and FOLDER/diff: sorted lines of numbers. All processes
// call it. Errors: as support::WriteSorted, and as an iteration.
tidepool::Status Dump(const Problem& problem, const Forms& forms, const std::string& folder,
                      support::Team* team);

}  // namespace tree
