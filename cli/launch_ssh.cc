#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "cli/launcher.h"
#include "cli/poll.h"
#include "cli/spawn.h"
#include "cli/text.h"
#include "proto/base/clock.h"
#include "proto/cluster_file/file_io.h"
#include "proto/cluster_file/host_name.h"
#include "proto/cluster_file/random.h"
#include "proto/convert/grpc_channel.h"

namespace tidepool::cli {
namespace {

constexpr std::uint64_t kSshMs = 30'000;

// For a POSIX shell on the other side.
std::string ShellQuoted(const std::string& word) {
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted.push_back(c);
    }
  }
  return quoted + "'";
}

std::vector<std::string> SshWords() {
  const char* const given = std::getenv("TIDEPOOL_KVCTL_SSH");
  std::istringstream words(given != nullptr && *given != '\0' ? given : "ssh -o BatchMode=yes");
  std::vector<std::string> list;
  for (std::string word; words >> word;) list.push_back(word);
  return list;
}

// Before the number of the daemon's process. A login may print lines of its own before and after.
constexpr const char* kPidMark = "tidepool-kvd-pid=";

// The number behind the mark. Errors: kNotFound, kInvalidArgument.
Result<std::uint64_t> PidIn(std::string_view said) {
  const std::size_t mark = said.rfind(kPidMark);
  if (mark == std::string_view::npos) return Status(StatusCode::kNotFound, "there is no number");
  std::string_view number = said.substr(mark + std::string_view(kPidMark).size());
  return ParseUnsigned(number.substr(0, number.find_first_not_of("0123456789")));
}

bool IsHere(const std::string& host) {
  return host == cluster_file::HostName() || convert::IsLoopback(host);
}

class SshLauncher final : public Launcher {
 public:
  SshLauncher(LaunchPlan plan, std::vector<std::string> hosts, std::string file)
      : plan_(std::move(plan)), file_(std::move(file)) {
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      nodes_.push_back(
          {hosts[i], plan_.log_folder + "/kvd-" + hosts[i] + "." + std::to_string(i) + ".log"});
    }
  }

  Status Launch() override {
    // Daemons that do not see the file would each begin a cluster of their own.
    const std::string probe = file_ + ".start-" + cluster_file::RandomHex(8);
    TP_RETURN_IF_ERROR(cluster_file::ReplaceFile(probe, ""));
    const Status launched = LaunchAll(probe);
    unlink(probe.c_str());
    return launched;
  }

  Status Check(std::string* log) override {
    for (const Node& node : nodes_) {
      const std::string reason = ReasonIn(node.log);
      const auto code =
          node.local && node.pid != 0 ? ChildExitCode(node.pid) : std::optional<int>();
      if (reason.empty() && !code.has_value()) continue;
      *log = node.log;
      return Status(StatusCode::kFailedPrecondition,
                    "the daemon of " + node.host + " ended while starting" +
                        (code.has_value() ? " (" + EndText(*code) + ")" : "") + ": " +
                        (reason.empty() ? LastLine(node.log) : reason),
                    "its log is " + node.log);
    }
    return OkStatus();
  }

  void Abort() override {
    for (const Node& node : nodes_) {
      if (node.pid == 0) continue;
      if (node.local) {
        kill(node.pid, SIGTERM);
      } else {
        // It has the time that a daemon takes to leave; then it is gone, whatever it says.
        const std::string pid = std::to_string(node.pid);
        std::ignore = Ssh(node, "kill " + pid + "; for i in 1 2 3 4 5; do kill -0 " + pid +
                                    " 2>/dev/null || exit 0; sleep 1; done; kill -9 " + pid);
      }
    }
    const Deadline deadline = Deadline::AfterMs(kAbortMs);
    for (const Node& node : nodes_) {
      if (node.pid == 0 || !node.local) continue;
      while (!deadline.Passed() && !ChildHasEnded(node.pid)) {
        std::this_thread::sleep_for(kPollEvery);
      }
      if (IsDaemonAlive(node.pid)) kill(node.pid, SIGKILL);
    }
  }

  std::vector<Place> places() const override {
    std::vector<Place> places;
    for (const Node& node : nodes_) places.push_back({node.host, node.log});
    return places;
  }

  std::vector<pid_t> pids() const override {
    std::vector<pid_t> numbers;
    for (const Node& node : nodes_) {
      if (node.local && node.pid != 0) numbers.push_back(node.pid);
    }
    return numbers;
  }

 private:
  struct Node {
    std::string host;
    std::string log;
    pid_t pid = 0;  // On its host.
    bool local = false;
  };

  Status LaunchAll(const std::string& probe) {
    for (Node& node : nodes_) {
      node.local = IsHere(node.host);
      if (node.local) {
        const Result<pid_t> pid = SpawnDetached(plan_.program, plan_.options, node.log);
        if (!pid.ok()) return pid.status();
        node.pid = *pid;
        continue;
      }
      std::string command =
          "test -e " + ShellQuoted(probe) + " || exit 77; setsid " + ShellQuoted(plan_.program);
      for (const std::string& option : plan_.options) command += " " + ShellQuoted(option);
      command += " >>" + ShellQuoted(node.log) + " 2>&1 </dev/null & echo " + kPidMark + "$!";
      auto said = Ssh(node, command);
      if (!said.ok()) return said.status();
      const auto pid = PidIn(*said);
      if (!pid.ok()) {
        return Status(
            StatusCode::kUnavailable,
            "ssh " + node.host + " does not say the daemon's process number, but " + Quote(*said),
            "does a login there end or replace the shell?");
      }
      node.pid = static_cast<pid_t>(*pid);
    }
    return OkStatus();
  }

  // Returns the output of `command` on the node's host, without the output of the login.
  Result<std::string> Ssh(const Node& node, const std::string& command) const {
    std::vector<std::string> words = SshWords();
    auto program = FindInPath(words.front());
    if (!program.ok()) return program.status();
    std::vector<std::string> arguments(words.begin() + 1, words.end());
    // Any kind of login shell gets a single word for a POSIX shell.
    arguments.insert(arguments.end(), {node.host, "sh -c " + ShellQuoted(command)});
    const std::string output = plan_.log_folder + "/ssh-" + node.host + ".log";
    unlink(output.c_str());
    const Result<pid_t> pid = SpawnDetached(*program, arguments, output);
    if (!pid.ok()) return pid.status();
    const Deadline deadline = Deadline::AfterMs(kSshMs);
    std::optional<int> code;
    while (!(code = ChildExitCode(*pid)).has_value() && !deadline.Passed()) {
      std::this_thread::sleep_for(kPollEvery);
    }
    if (!code.has_value()) kill(*pid, SIGKILL);
    const std::string last = LastLine(output);
    if (code == 0) {
      std::ifstream file(output);
      std::stringstream text;
      text << file.rdbuf();
      unlink(output.c_str());
      return text.str();
    }
    if (code == 77) {
      return Status(StatusCode::kFailedPrecondition,
                    node.host + " does not see the folder of " + file_ + " as this machine does",
                    "name a connection file on a file system that all hosts share, with --cluster");
    }
    return Status(StatusCode::kUnavailable,
                  "ssh " + node.host + (code.has_value() ? " failed" : " takes too long") +
                      (last.empty() ? "" : ": " + last),
                  "ssh " + node.host +
                      " true must work without a question; or set "
                      "TIDEPOOL_KVCTL_SSH");
  }

  const LaunchPlan plan_;
  const std::string file_;
  std::vector<Node> nodes_;
};

}  // namespace

std::unique_ptr<Launcher> LaunchBySsh(LaunchPlan plan, std::vector<std::string> hosts,
                                      std::string file) {
  return std::make_unique<SshLauncher>(std::move(plan), std::move(hosts), std::move(file));
}

}  // namespace tidepool::cli
