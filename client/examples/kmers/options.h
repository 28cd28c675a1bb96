// The command line of kmers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kmers {

struct Options {
  std::string cluster;  // Empty: found as every client finds it.
  int letters = 0;      // Of a k-mer.
  int processes = 1;
  std::string table;      // Empty: none is written.
  std::string histogram;  // Empty: none is written.
  bool admit = false;     // Only k-mers that come twice or more, in less memory.
  std::string run;        // Names the run's namespaces; empty: made up, or from srun or mpirun.
  int silence_seconds = 60;
  std::vector<std::string> reads;
};

// Returns -1 to go on, else the exit code: help was asked for, or something is wrong and was
// printed.
int ParseOptions(int argc, char** argv, Options* options);

}  // namespace kmers
