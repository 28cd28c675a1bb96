// kvd: a node of a Tidepool service. Reads its options, starts the node, waits for a signal. As kvd
// check and kvd inspect, reads the devices of a stopped node.
#include <malloc.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "client/link/node_aggregator.h"
#include "daemon/config/options.h"
#include "daemon/control/start_limits.h"
#include "daemon/control/stop_signal.h"
#include "daemon/control/thread_limits.h"
#include "daemon/node/lease_guard.h"
#include "daemon/node/node.h"
#include "daemon/node/signal_watcher.h"
#include "daemon/services/service_host.h"
#include "daemon/tools/nvm_tools.h"
#include "proto/base/log.h"
#include "proto/base/standard_descriptors.h"
#include "proto/cluster_file/file_io.h"
#include "proto/cluster_file/loss_record.h"
#include "proto/machine/process_limits.h"
#include "proto/transport/process_environment.h"
#include "proto/transport/ucx_transport.h"

extern char** environ;

TIDEPOOL_OPEN_STANDARD_DESCRIPTORS(tidepool::ClosedDescriptor::kIsEmpty);

namespace tidepool::daemon {
namespace {

// SignalWatcher has 3, for a second signal.
enum ExitCode : int { kEnded = 0, kFailed = 1, kWrongUsage = 2 };

int Fail(const Status& status, ExitCode code) {
  std::fprintf(stderr, "kvd: %s\n", status.ToString().c_str());
  return code;
}

std::vector<std::string> WarningsOf(const LoadedOptions& loaded) {
  std::vector<std::string> lines;
  std::istringstream text(loaded.warning);
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

void PrintWarnings(const LoadedOptions& loaded) {
  for (const std::string& line : WarningsOf(loaded)) {
    std::fprintf(stderr, "kvd: warning: %s\n", line.c_str());
  }
}

// "3 records in namespaces 'a' (2 records, 20 bytes), 'b' (1 record, 9 bytes) are"; "" without any.
std::string UnsavedText(const std::vector<cluster_file::LostNamespace>& unsaved) {
  if (unsaved.empty()) return "";
  std::uint64_t records = 0;
  for (const cluster_file::LostNamespace& each : unsaved) records += each.records;
  return std::to_string(records) + (records == 1 ? " record in " : " records in ") +
         (unsaved.size() == 1 ? "namespace " : "namespaces ") + cluster_file::LossText(unsaved) +
         (records == 1 ? " is" : " are");
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

// Bounds the heaps that malloc keeps for threads: a heap per core and a few for gRPC's threads,
// which often free memory that another thread has allocated. The default is 8 per CPU, which left
// 20 MiB free and unused on a node with two cores.
void BoundHeaps(std::uint32_t cores) {
  constexpr int kHeapsOfServices = 2;
  mallopt(M_ARENA_MAX, static_cast<int>(cores) + kHeapsOfServices);
}

int Serve(const LoadedOptions& loaded) {
  BoundHeaps(loaded.options.cores);
  if (!loaded.options.log_file.empty()) {
    // Reports a mistyped folder; the log would create it.
    const Status there = cluster_file::CheckFolderOf(loaded.options.log_file, "write the log");
    if (!there.ok()) return Fail(there, kWrongUsage);
  }
  const Status opened = log::Open(loaded.options.log_level, loaded.options.log_file);
  if (!opened.ok()) return Fail(opened, kWrongUsage);
  for (const std::string& line : WarningsOf(loaded)) log::Warn(line);
  const machine::ProcessLimits limits = machine::ReadProcessLimits();
  const Status enough = CheckStartLimits(loaded.options, limits);
  if (!enough.ok()) return Fail(enough, kFailed);
  for (const std::string& line : LimitWarnings(limits)) log::Warn(line);
  if (!loaded.options.log_file.empty()) PrintWarnings(loaded);
  const Status threads = PrepareForThreads(loaded.options.cores);
  if (!threads.ok()) return Fail(threads, kFailed);
  RouteGrpcLog();
  std::signal(SIGPIPE, SIG_IGN);
  // Static, because the watcher never ends and uses it.
  static StopSignal stop;
  static SignalWatcher watcher(
      {.linger_ms = loaded.options.linger_ms, .is_on_terminal = isatty(STDERR_FILENO) == 1}, &stop);
  if (const Status watching = watcher.Start(); !watching.ok()) return Fail(watching, kFailed);

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
    watcher.BeginServing([&node] { return UnsavedText((*node)->FindLosses()); });
    std::printf("kvd ready: %s\n", (*node)->Describe().c_str());
    std::fflush(stdout);
  }
  stop.Wait();
  watcher.EndServing();
  const StopRequest request = stop.request();
  (*node)->Drain(request, watcher.reason());
  node->reset();
  log::Flush();
  return request.failure.ok() ? kEnded : Fail(request.failure, kFailed);
}

int Main(int argc, char** argv) {
  if (IsLeaseGuard(argc, argv)) return RunLeaseGuard();
  if (argc > 1 && IsNvmTool(argv[1])) {
    return RunNvmTool(std::vector<std::string>(argv + 1, argv + argc));
  }
  // A batch system may send its signals to a daemon that has just begun. SignalWatcher takes them.
  SignalWatcher::Block();
  machine::AdjustProcessLimits();
  // Before any thread: it may start this program again.
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
      PrintWarnings(*loaded);
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
