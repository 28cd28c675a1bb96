// kvd: a node of a Tidepool service. Reads its options, starts the node, waits for a signal. Or, as
// kvd check and kvd inspect, looks at what a node has left.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "client/node_aggregator.h"
#include "daemon/node.h"
#include "daemon/nvm_tools.h"
#include "daemon/options.h"
#include "daemon/services/service_host.h"
#include "daemon/stop_signal.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/cluster_file/file_io.h"
#include "proto/transport/process_environment.h"
#include "proto/transport/ucx_transport.h"

extern char** environ;

namespace tidepool::daemon {
namespace {

constexpr std::uint64_t kEverMs = 3'600'000;  // Of a wait that is begun again.

enum ExitCode : int { kEnded = 0, kFailed = 1, kWrongUsage = 2, kSecondSignal = 3 };

int Fail(const Status& status, ExitCode code) {
  std::fprintf(stderr, "kvd: %s\n", status.ToString().c_str());
  return code;
}

// Signals are blocked in all threads and taken by this one, so that no code is interrupted by them.
//
// A node that does not serve yet has nothing to keep, so it does not linger. While it does, SIGTERM
// may come again: Slurm tells the processes of a step that its job ends, and so may srun.
void WatchSignals(const sigset_t& signals, std::uint64_t linger_ms, const std::atomic<bool>* serves,
                  StopSignal* stop) {
  // Since the first signal, until the stop is requested.
  bool is_lingering = false;
  Deadline linger_end = Deadline::AfterMs(0);
  bool is_first = true;
  while (true) {
    const std::uint64_t wait_ms = is_lingering ? linger_end.LeftMs() : kEverMs;
    const timespec time = {static_cast<time_t>(wait_ms / 1000),
                           static_cast<long>(wait_ms % 1000 * 1'000'000)};
    const int signal = sigtimedwait(&signals, nullptr, &time);
    if (signal < 0 && is_lingering && linger_end.Passed()) {
      is_lingering = false;
      log::Info("nobody has stopped this node meanwhile: stopping in good order");
      stop->Request({});
    }
    if (signal < 0 || (is_lingering && signal == SIGTERM)) continue;
    if (!is_first) _Exit(kSecondSignal);
    is_first = false;
    if (linger_ms > 0 && serves->load()) {
      log::Info("signal " + std::to_string(signal) + ": serving for up to " +
                std::to_string(linger_ms) + " ms more, or until kvctl stop");
      is_lingering = true;
      linger_end = Deadline::AfterMs(linger_ms);
      continue;
    }
    log::Info("signal " + std::to_string(signal) + ": stopping in good order");
    stop->Request({});
  }
}

void PrintConfig(const LoadedOptions& loaded) {
  std::fputs(FormatConfig(loaded.values).c_str(), stdout);
  transport::UcxSettings settings;
  if (!loaded.options.net_devices.empty()) settings.devices = loaded.options.net_devices;
  settings.endpoints_expected = loaded.options.clients_expected;
  std::fputs("\n# Network settings that are put over UCX_* of the environment:\n", stdout);
  std::string line = "# ";
  for (const char c : transport::DescribeUcxSettings(settings)) {
    line.push_back(c);
    if (c == '\n') line += "# ";
  }
  line.resize(line.find_last_not_of("# \n") + 1);
  std::fprintf(stdout, "%s\n", line.c_str());
}

int Serve(const LoadedOptions& loaded) {
  if (!loaded.options.log_file.empty()) {
    // The log would make missing folders; a mistyped one had better be said.
    const Status there = cluster_file::CheckFolderOf(loaded.options.log_file, "write the log");
    if (!there.ok()) return Fail(there, kWrongUsage);
  }
  const Status opened = log::Open(loaded.options.log_level, loaded.options.log_file);
  if (!opened.ok()) return Fail(opened, kWrongUsage);
  if (!loaded.warning.empty()) log::Warn(loaded.warning);
  RouteGrpcLog();
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // Static: the watcher never ends, so what it uses must not either.
  static StopSignal stop;
  static std::atomic<bool> serves = false;
  std::thread(WatchSignals, signals, loaded.options.linger_ms, &serves, &stop).detach();

  const auto make_aggregator = [](wire::AggregatorOptions options) {
    return std::make_unique<internal::NodeAggregator>(std::move(options));
  };
  auto node = Node::Start(loaded, &stop, make_aggregator);
  if (!node.ok()) {
    log::Flush();
    // A start that was interrupted has ended as asked.
    if (node.code() == StatusCode::kCancelled && stop.requested()) return kEnded;
    // Options and files that only the machine shows to be wrong: a network interface, the
    // connection file.
    return Fail(node.status(), node.code() == StatusCode::kInvalidArgument ? kWrongUsage : kFailed);
  }
  if ((*node)->WaitFormed()) {
    std::printf("kvd ready: %s\n", (*node)->Describe().c_str());
    std::fflush(stdout);
    serves = true;
  }
  stop.Wait();
  const StopRequest request = stop.request();
  (*node)->Drain(request);
  node->reset();
  log::Flush();
  return request.failure.ok() ? kEnded : Fail(request.failure, kFailed);
}

int Main(int argc, char** argv) {
  if (argc > 1 && IsNvmTool(argv[1])) {
    return RunNvmTool(std::vector<std::string>(argv + 1, argv + argc));
  }
  // Before anything else: it may start this program again.
  const Status environment = transport::EnterUcxEnvironment(argv);
  if (!environment.ok()) Fail(environment, kFailed);
  // Each client takes a few; login shells and batch systems often allow 1,024, but more on request.
  transport::RaiseDescriptorLimit();
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  auto loaded =
      LoadOptions(std::vector<std::string>(argv + 1, argv + argc), variables, ReadMachine());
  if (!loaded.ok()) return Fail(loaded.status(), kWrongUsage);
  switch (loaded->action) {
    case LoadedOptions::Action::kPrintText:
      std::fputs(loaded->text.c_str(), stdout);
      return kEnded;
    case LoadedOptions::Action::kPrintConfig:
      PrintConfig(*loaded);
      return kEnded;
    case LoadedOptions::Action::kRun:
      return Serve(*loaded);
  }
  return kFailed;
}

}  // namespace
}  // namespace tidepool::daemon

int main(int argc, char** argv) { return tidepool::daemon::Main(argc, argv); }
