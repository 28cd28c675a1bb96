#include <signal.h>

#include <chrono>
#include <filesystem>
#include <string_view>
#include <thread>
#include <utility>

#include "cli/launcher.h"
#include "cli/poll.h"
#include "cli/slurm_job.h"
#include "cli/spawn.h"
#include "proto/base/clock.h"
#include "proto/cluster_file/random.h"

namespace tidepool::cli {
namespace {

// Slurm asks the step to end, and kills it after KillWait, 30 s by default.
constexpr std::uint64_t kStepAbortMs = 40'000;
// Daemons that do not serve yet end at once.
constexpr std::uint64_t kDrainMs = 10'000;
constexpr std::string_view kLogStem = "kvd-";
// Lines of srun about the tasks of some nodes.
constexpr std::size_t kSrunLines = 64;

// "srun: error: n2: task 1: Killed"; of several "n[1-2]: tasks 0-1: ...".
bool TaskEnded(const std::string& line, std::string* host, std::string* reason) {
  constexpr std::string_view kBegin = "srun: error: ";
  const std::size_t task = line.find(": task");
  if (!line.starts_with(kBegin) || task == std::string::npos || task <= kBegin.size()) return false;
  const std::size_t colon = line.find(": ", task + 2);
  if (colon == std::string::npos) return false;
  *host = line.substr(kBegin.size(), task - kBegin.size());
  *reason = line.substr(colon + 2);
  return true;
}

class StepLauncher final : public Launcher {
 public:
  StepLauncher(LaunchPlan plan, std::uint32_t cpus) : plan_(std::move(plan)), cpus_(cpus) {}

  Status Launch() override {
    auto srun = FindInPath("srun");
    if (!srun.ok()) return srun.status();
    const std::string nodes = std::to_string(plan_.nodes);
    std::vector<std::string> arguments = {
        "--job-name=" + name_,
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
        "--output=" + LogOf("%N"),
    };
    arguments.push_back(plan_.program);
    arguments.insert(arguments.end(), plan_.options.begin(), plan_.options.end());
    const Result<pid_t> pid = SpawnDetached(*srun, arguments, SrunLog());
    if (!pid.ok()) return pid.status();
    srun_ = *pid;
    return OkStatus();
  }

  Status Check(std::string* log) override {
    std::error_code error;
    for (const auto& file : std::filesystem::directory_iterator(plan_.log_folder, error)) {
      const std::string stem = file.path().stem();
      if (!stem.starts_with(kLogStem)) continue;
      const std::string reason = ReasonIn(file.path());
      if (reason.empty()) continue;
      *log = file.path();
      return Ended(stem.substr(kLogStem.size()), reason, file.path());
    }
    // A killed daemon had no time to log the reason, but srun has logged it.
    for (const std::string& line : LastLines(SrunLog(), kSrunLines)) {
      std::string host;
      std::string reason;
      if (!TaskEnded(line, &host, &reason)) continue;
      *log = LogOf(host);
      return Ended(host, reason, LogOf(host));
    }
    if (!ChildHasEnded(srun_)) return OkStatus();
    srun_ = 0;
    *log = SrunLog();
    const std::string last = LastLine(SrunLog());
    return Status(StatusCode::kFailedPrecondition,
                  "srun ended while starting the daemons" + (last.empty() ? "" : ": " + last),
                  "logs are in " + plan_.log_folder);
  }

  void Abort() override {
    if (srun_ == 0) return;
    // Slurm ends them, so that they end in good order: on SIGTERM, srun itself kills its tasks.
    if (const auto job = SlurmJob::OfThisProcess()) {
      for (const SlurmJob::Step& step : job->Steps()) {
        if (step.name == name_) job->Signal(step.id, "TERM");
      }
      if (SrunEndsWithin(kDrainMs)) return;
    }
    kill(srun_, SIGTERM);
    if (!SrunEndsWithin(kStepAbortMs)) kill(srun_, SIGKILL);
  }

  std::vector<Place> places() const override {
    std::vector<Place> places;
    const auto job = SlurmJob::OfThisProcess();
    if (!job.has_value()) return places;
    for (const std::string& host : job->Hosts()) places.push_back({host, LogOf(host)});
    return places;
  }

  std::vector<pid_t> pids() const override { return {srun_}; }
  pid_t keeper() const override { return srun_; }

 private:
  std::string SrunLog() const { return plan_.log_folder + "/srun.log"; }
  // Path named by --output.
  std::string LogOf(const std::string& host) const {
    return plan_.log_folder + "/" + std::string(kLogStem) + host + ".log";
  }

  static Status Ended(const std::string& host, const std::string& reason, const std::string& log) {
    return Status(StatusCode::kFailedPrecondition,
                  "the daemon of node " + host + " ended while starting: " + reason,
                  "its log is " + log);
  }

  bool SrunEndsWithin(std::uint64_t timeout_ms) {
    const Deadline deadline = Deadline::AfterMs(timeout_ms);
    while (!ChildHasEnded(srun_)) {
      if (deadline.Passed()) return false;
      std::this_thread::sleep_for(kPollEvery);
    }
    return true;
  }

  const LaunchPlan plan_;
  const std::uint32_t cpus_;
  // A job may have several clusters.
  const std::string name_ = kDaemonStep + ("-" + cluster_file::RandomHex(4));
  pid_t srun_ = 0;
};

}  // namespace

std::unique_ptr<Launcher> LaunchStep(LaunchPlan plan, std::uint32_t cpus) {
  return std::make_unique<StepLauncher>(std::move(plan), cpus);
}

}  // namespace tidepool::cli
