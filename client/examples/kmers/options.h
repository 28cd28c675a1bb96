// The command line of kmers.
#pragma once

#include <string>
#include <vector>

#include "client/examples/support/program.h"

namespace kmers {

struct Options {
  support::ProgramOptions program;
  int letters = 0;        // Letters of a k-mer.
  std::string table;      // Empty: no table is written.
  std::string histogram;  // Empty: no histogram is written.
  bool admit = false;     // Only k-mers that come twice or more, in less memory.
  std::vector<std::string> reads;
};

// Returns -1 to go on, else the exit code: help was asked for, or something is wrong and was
// printed.
int ParseOptions(int argc, char** argv, Options* options);

}  // namespace kmers
