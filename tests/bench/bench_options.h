// What every bench is told on its command line, and a folder of its own.
#pragma once

#include <string>

namespace tidepool::bench {

struct BenchOptions {
  std::string rows = "*";  // Only rows that match this glob are measured.
  int runs = 5;            // That each median is of.
  double scale = 1;        // Share of the full size, for a smoke test.
};

// Ends the program after --help, and where the arguments make no sense. `title`: for --help.
BenchOptions ParseOptions(int argc, char** argv, const char* title);

// A temporary folder that goes with this object. Ends the program if none can be made.
class BenchFolder {
 public:
  BenchFolder();
  ~BenchFolder();
  BenchFolder(const BenchFolder&) = delete;
  BenchFolder& operator=(const BenchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace tidepool::bench
