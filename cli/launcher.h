// Brings up the daemons of a new cluster, one per node, wherever they are to run.
//
//   commands/cluster/start -> [Launcher] -> processes of this machine | a step of a Slurm job | ssh
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands/cluster/nvm_folders.h"
#include "proto/base/result.h"

namespace tidepool::cli {

// Time for daemons of this machine and of ssh to end before Abort kills them.
inline constexpr std::uint64_t kAbortMs = 5'000;

// What is the same wherever they run.
struct LaunchPlan {
  std::string program;               // kvd.
  std::vector<std::string> options;  // Of each kvd.
  std::string log_folder;
  std::uint64_t nodes = 1;
};

// Not thread-safe. What Launch has started outlives the launcher unless Abort is called.
class Launcher {
 public:
  virtual ~Launcher() = default;

  // Errors: what each way to start a process gives, naming the node.
  virtual Status Launch() = 0;
  // kOk while all run; else kFailedPrecondition: who has ended and why. `log` becomes the path of a
  // log that says more, if there is one.
  virtual Status Check(std::string* log) = 0;
  // Ends all that Launch has started, by force in the end.
  virtual void Abort() = 0;
  // Who is expected to join, and where their logs are; empty: it goes without saying.
  struct Place {
    std::string host;
    std::string log;
  };
  virtual std::vector<Place> places() const { return {}; }
  // For people: processes of this machine that are daemons or hold them.
  virtual std::vector<pid_t> pids() const = 0;
  // What must have ended, on this machine, once the daemons have; 0: nothing but them.
  virtual pid_t keeper() const { return 0; }
};

// Daemons of this machine. `nvm` has a folder for each or none; with the state of an earlier
// cluster its coordinator starts first, and `wait_until_live` returns when it serves.
std::unique_ptr<Launcher> LaunchHere(LaunchPlan plan, NvmFolders nvm,
                                     std::function<Status()> wait_until_live);

// One daemon on each node of this Slurm job, as a job step beside what else runs in the job. Each
// has `cpus` CPUs of its node. Errors of Launch: kNotFound (no srun).
std::unique_ptr<Launcher> LaunchStep(LaunchPlan plan, std::uint32_t cpus);

// One daemon on each of `hosts`, by ssh (TIDEPOOL_KVCTL_SSH, with blanks between its words, in its
// place), on this machine without it. They must see the folder of `file` as this machine does.
std::unique_ptr<Launcher> LaunchBySsh(LaunchPlan plan, std::vector<std::string> hosts,
                                      std::string file);

}  // namespace tidepool::cli
