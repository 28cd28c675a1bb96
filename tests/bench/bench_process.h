// Processes that a bench measures: a daemon, a peer, a second client.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "proto/base/result.h"

namespace tidepool::bench {

// A child that dies with this process at the latest. Not thread-safe.
class BenchProcess {
 public:
  // Starts `command` (argv[0] is looked for in PATH), output to /dev/null or, if given, to a file.
  static Result<BenchProcess> Start(const std::vector<std::string>& command,
                                    const std::string& output = "/dev/null");
  BenchProcess(BenchProcess&& other) noexcept;
  BenchProcess& operator=(BenchProcess&& other) noexcept;
  ~BenchProcess();  // Stop(SIGTERM)

  pid_t pid() const { return pid_; }
  bool Running();
  // Ends it by `signal`, and by SIGKILL if it is not gone in 60 s.
  void Stop(int signal);
  // User and system time of all its threads so far.
  std::uint64_t CpuNs() const;

 private:
  explicit BenchProcess(pid_t pid) : pid_(pid) {}
  pid_t pid_ = -1;
};

// Runs `command` to its end and returns what it wrote to stdout. Errors: kInternal (exit code).
Result<std::string> RunAndRead(const std::vector<std::string>& command);

// A port of loopback that nobody listens on now.
int FreePort();

// One row of the benches' output, as tests/bench/run reads it.
struct Row {
  std::string row;
  double value = 0;
  std::string unit;
  std::string peer;
  double peer_value = 0;
  double ratio = 0;
  std::string goal;  // For example "<= 1.3"; empty: none.
  bool met = false;
  std::string details;  // More members of the JSON object.
};
void Print(const Row& row);

double MedianOf(std::vector<double> values);

}  // namespace tidepool::bench
