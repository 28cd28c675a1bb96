// The Slurm job that this process is in, by Slurm's own commands: no library of Slurm's is linked.
//
// commands/cluster/start, commands/cluster/run, launch_step -> [SlurmJob] => squeue, scontrol,
// scancel
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tidepool::cli {

// With which the names of steps begin that hold daemons.
inline constexpr const char* kDaemonStep = "tidepool-kvd";

// A plain value. Each call starts a command, which takes some 10 ms and is given up after 10 s.
// If a fact cannot be found out, the result is as if Slurm had not reported it.
class SlurmJob {
 public:
  // Nothing outside of a job.
  static std::optional<SlurmJob> OfThisProcess();

  // When the job's time is over, ms since 1970, as of now: it may be extended. 0: no limit is
  // known.
  std::uint64_t EndMs() const;
  // Between SIGTERM to all of a job and SIGKILL. 30 s if nothing is known, which is Slurm's
  // default.
  std::uint64_t KillWaitMs() const;
  // Host names of its nodes.
  std::vector<std::string> Hosts() const;
  // The steps that srun has begun and that run.
  struct Step {
    std::string id;  // "12.0"
    std::string name;
  };
  std::vector<Step> Steps() const;
  // Sends a signal ("TERM") to the processes of a step. (On SIGTERM, srun itself kills them.)
  void Signal(const std::string& step, const std::string& signal) const;

 private:
  explicit SlurmJob(std::string id) : id_(std::move(id)) {}

  std::string id_;
};

}  // namespace tidepool::cli
