// Starts the daemons of a new cluster, a daemon per node.
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

// Facts that hold for all ways to launch.
struct LaunchPlan {
  std::string program;               // kvd.
  std::vector<std::string> options;  // Options of each kvd.
  std::string log_folder;
  std::uint64_t nodes = 1;
};

// Not thread-safe. Launched processes outlive the launcher unless Abort is called.
class Launcher {
 public:
  virtual ~Launcher() = default;

  // Errors: the errors of the way to start processes; the text names the node.
  virtual Status Launch() = 0;
  // Returns kOk while all daemons run, otherwise kFailedPrecondition with the ended daemon and the
  // reason. `log` receives the path of a log with more details, if there is a log.
  virtual Status Check(std::string* log) = 0;
  // Ends all that Launch has started, by force in the end.
  virtual void Abort() = 0;
  // A place at which a daemon is expected: its host, by the name in the connection file, and the
  // path of its log. places() is empty if the hosts need no mention or are unknown.
  struct Place {
    std::string host;
    std::string log;
  };
  virtual std::vector<Place> places() const { return {}; }
  // For people: processes of this machine that are daemons or hold them.
  virtual std::vector<pid_t> pids() const = 0;
  // Process on this machine that must end after the daemons; 0: none.
  virtual pid_t keeper() const { return 0; }
};

// Launches daemons on this machine. `nvm` has a folder for each daemon, or none. With the state of
// an earlier cluster, its coordinator starts first, and `wait_until_live` returns when it serves.
std::unique_ptr<Launcher> LaunchHere(LaunchPlan plan, NvmFolders nvm,
                                     std::function<Status()> wait_until_live);

// Launches a daemon on each node of this Slurm job, as a job step beside the job's other steps.
// Each daemon has `cpus` CPUs of its node. Errors of Launch: kNotFound (no srun).
std::unique_ptr<Launcher> LaunchStep(LaunchPlan plan, std::uint32_t cpus);

// Launches a daemon on each of `hosts` by ssh, and on this machine without it. The variable
// TIDEPOOL_KVCTL_SSH replaces the ssh command, with blanks between its words. All hosts must see
// the folder of `file` under the same path.
std::unique_ptr<Launcher> LaunchBySsh(LaunchPlan plan, std::vector<std::string> hosts,
                                      std::string file);

}  // namespace tidepool::cli
