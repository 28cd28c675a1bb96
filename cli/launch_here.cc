#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "cli/launcher.h"
#include "cli/poll.h"
#include "cli/spawn.h"
#include "proto/base/clock.h"

namespace tidepool::cli {
namespace {

class HereLauncher final : public Launcher {
 public:
  HereLauncher(LaunchPlan plan, NvmFolders nvm, std::function<Status()> wait_until_live)
      : plan_(std::move(plan)),
        nvm_(std::move(nvm)),
        wait_until_live_(std::move(wait_until_live)) {}

  Status Launch() override {
    if (nvm_.coordinator.has_value()) {
      TP_RETURN_IF_ERROR(SpawnOne(*nvm_.coordinator));
      TP_RETURN_IF_ERROR(wait_until_live_());
    }
    for (std::size_t i = 0; i < plan_.nodes; ++i) {
      if (i != nvm_.coordinator) TP_RETURN_IF_ERROR(SpawnOne(i));
    }
    std::sort(children_.begin(), children_.end(),
              [](const Child& a, const Child& b) { return a.node < b.node; });
    return OkStatus();
  }

  Status Check(std::string* /*log*/) override {
    for (std::size_t i = 0; i < children_.size(); ++i) {
      const Child child = children_[i];
      const std::optional<int> code = ChildExitCode(child.pid);
      if (!code.has_value()) continue;
      children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(i));
      const std::string last = LastLine(LogOf(child.node));
      return Status(StatusCode::kFailedPrecondition,
                    "a daemon ended while starting (" + EndText(*code) + ")" +
                        (last.empty() ? "" : ": " + last),
                    "its log is " + LogOf(child.node));
    }
    return OkStatus();
  }

  void Abort() override {
    for (const Child& child : children_) kill(child.pid, SIGTERM);
    const Deadline deadline = Deadline::AfterMs(kAbortMs);
    for (const Child& child : children_) {
      while (!deadline.Passed() && !ChildHasEnded(child.pid)) {
        std::this_thread::sleep_for(kPollEvery);
      }
      if (IsDaemonAlive(child.pid)) kill(child.pid, SIGKILL);
    }
    // Only folders that are empty go: made for daemons that have taken no room there.
    for (const std::string& path : nvm_.paths) rmdir(path.c_str());
  }

  std::vector<pid_t> pids() const override {
    std::vector<pid_t> numbers;
    for (const Child& child : children_) numbers.push_back(child.pid);
    return numbers;
  }

 private:
  struct Child {
    pid_t pid;
    std::size_t node;
  };

  std::string LogOf(std::size_t node) const {
    return plan_.log_folder + "/kvd-" + std::to_string(node) + ".log";
  }

  Status SpawnOne(std::size_t node) {
    std::vector<std::string> options = plan_.options;
    if (!nvm_.paths.empty()) options.insert(options.end(), {"--nvm-dir", nvm_.paths[node]});
    const Result<pid_t> pid = SpawnDetached(plan_.program, options, LogOf(node));
    if (!pid.ok()) return pid.status();
    children_.push_back({*pid, node});
    return OkStatus();
  }

  const LaunchPlan plan_;
  const NvmFolders nvm_;
  const std::function<Status()> wait_until_live_;
  std::vector<Child> children_;
};

}  // namespace

std::unique_ptr<Launcher> LaunchHere(LaunchPlan plan, NvmFolders nvm,
                                     std::function<Status()> wait_until_live) {
  return std::make_unique<HereLauncher>(std::move(plan), std::move(nvm),
                                        std::move(wait_until_live));
}

}  // namespace tidepool::cli
