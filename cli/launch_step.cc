#include <signal.h>

#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "cli/launcher.h"
#include "cli/spawn.h"
#include "proto/base/clock.h"

namespace tidepool::cli {
namespace {

constexpr std::chrono::milliseconds kPollEvery{20};
// Slurm tells the step to end, and kills it after KillWait, 30 s by default.
constexpr std::uint64_t kAbortMs = 40'000;

class StepLauncher final : public Launcher {
 public:
  StepLauncher(LaunchPlan plan, std::uint32_t cpus) : plan_(std::move(plan)), cpus_(cpus) {}

  Status Launch() override {
    auto srun = FindInPath("srun");
    if (!srun.ok()) return srun.status();
    const std::string nodes = std::to_string(plan_.nodes);
    std::vector<std::string> arguments = {
        "--job-name=tidepool",
        "--nodes=" + nodes,
        "--ntasks=" + nodes,
        "--ntasks-per-node=1",
        "--cpus-per-task=" + std::to_string(cpus_),
        // The program of the job has the same CPUs and all the memory; they share.
        "--overlap",
        "--exact",
        "--mem=0",
        "--mpi=none",
        // A node that fails is the cluster's business, not the end of the step.
        "--no-kill",
        "--kill-on-bad-exit=0",
        "--wait=0",
        "--input=none",
        "--open-mode=append",
        "--output=" + plan_.log_folder + "/kvd-%N.log",
    };
    arguments.push_back(plan_.program);
    arguments.insert(arguments.end(), plan_.options.begin(), plan_.options.end());
    const Result<pid_t> pid = SpawnDetached(*srun, arguments, SrunLog());
    if (!pid.ok()) return pid.status();
    srun_ = *pid;
    return OkStatus();
  }

  Status Check() override {
    std::error_code error;
    for (const auto& file : std::filesystem::directory_iterator(plan_.log_folder, error)) {
      const std::string stem = file.path().stem();
      if (!stem.starts_with("kvd-")) continue;
      const std::string reason = ReasonIn(file.path());
      if (reason.empty()) continue;
      return Status(StatusCode::kFailedPrecondition,
                    "the daemon of node " + stem.substr(4) + " ended while starting: " + reason,
                    "its log is " + file.path().string());
    }
    if (!ChildHasEnded(srun_)) return OkStatus();
    srun_ = 0;
    const std::string last = LastLine(SrunLog());
    return Status(StatusCode::kFailedPrecondition,
                  "srun ended while starting the daemons" + (last.empty() ? "" : ": " + last),
                  "logs are in " + plan_.log_folder);
  }

  void Abort() override {
    if (srun_ == 0) return;
    kill(srun_, SIGTERM);
    const Deadline deadline = Deadline::AfterMs(kAbortMs);
    while (!ChildHasEnded(srun_)) {
      if (deadline.Passed()) {
        kill(srun_, SIGKILL);
        return;
      }
      std::this_thread::sleep_for(kPollEvery);
    }
  }

  std::vector<pid_t> pids() const override { return {srun_}; }
  pid_t keeper() const override { return srun_; }

 private:
  std::string SrunLog() const { return plan_.log_folder + "/srun.log"; }

  const LaunchPlan plan_;
  const std::uint32_t cpus_;
  pid_t srun_ = 0;
};

}  // namespace

std::unique_ptr<Launcher> LaunchStep(LaunchPlan plan, std::uint32_t cpus) {
  return std::make_unique<StepLauncher>(std::move(plan), cpus);
}

}  // namespace tidepool::cli
