// A process of the product: fills its blocks of A and B, computes its blocks of C, and checks the
// result.
#pragma once

#include <cstdint>
#include <string>

#include "client/examples/summa/matrix.h"

namespace summa {

struct Options {
  int n = 2'048;
  std::uint64_t seed = 1;
  std::string cluster;  // Connection file; empty: as every client finds it.
  std::string name;     // Name of the namespace.
  bool keep = false;
};

// Returns an exit code: 0 if C is right. The first process prints the result.
int RunWorker(const Options& options, int size, int rank);

}  // namespace summa
