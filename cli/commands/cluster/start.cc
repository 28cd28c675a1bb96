#include "cli/commands/cluster/start.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

#include "cli/channel.h"
#include "cli/commands/cluster/nvm_folders.h"
#include "cli/commands/cluster/start_lock.h"
#include "cli/commands/cluster/stop.h"
#include "cli/commands/cluster/wait_ready.h"
#include "cli/held_signals.h"
#include "cli/invocation.h"
#include "cli/launcher.h"
#include "cli/poll.h"
#include "cli/spawn.h"
#include "cli/text.h"
#include "proto/base/limits.h"
#include "proto/cluster_file/host_name.h"
#include "proto/cluster_file/published_file.h"
#include "proto/convert/probe_cluster.h"
#include "proto/machine/machine.h"
#include "proto/machine/page_address.h"
#include "tidepool/v1/cluster.grpc.pb.h"

namespace tidepool::cli {
namespace {

// A daemon serves in 0.1 s; a machine that is busy with N of them needs longer.
constexpr std::uint64_t kStartHereMs = 30'000;
// A job step of many nodes takes its time.
constexpr std::uint64_t kStartThereMs = 120'000;
// Each poll reads the logs of all nodes, on a shared file system.
constexpr std::chrono::milliseconds kPollThereEvery{200};
// The kernel takes seconds to end a killed daemon with much memory.
constexpr std::uint64_t kKillMs = 10'000;
// For the address of the status page, when all serve.
constexpr std::uint64_t kAskPageMs = 2'000;
constexpr std::uint64_t kLocalMax = 64;
constexpr std::uint32_t kCoresByDefaultMax = 4;  // Equal to kvd's default.
constexpr std::size_t kLogLinesShown = 10;

enum class Where : std::uint8_t { kHere, kStep, kHosts };

// True if some option of `options` sets `name`.
bool Sets(const std::vector<std::string>& options, const std::string& name) {
  return std::any_of(options.begin(), options.end(), [&](const std::string& option) {
    return option == name || option.starts_with(name + "=");
  });
}

// The value that `options` give to `name`, or "".
std::string ValueOf(const std::vector<std::string>& options, const std::string& name) {
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (options[i].starts_with(name + "=")) return options[i].substr(name.size() + 1);
    if (options[i] == name && i + 1 < options.size()) return options[i + 1];
  }
  return "";
}

std::string EnvironmentOf(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Parses "n1,n2,n3", or a file of one host per line; "#" begins a comment.
Result<std::vector<std::string>> HostsOf(const Arguments& args) {
  std::string text = args.Text("--hosts");
  if (args.Has("--hostfile")) {
    std::ifstream file(args.Text("--hostfile"));
    if (!file) {
      return Status(StatusCode::kNotFound, "cannot read " + Quote(args.Text("--hostfile")));
    }
    for (std::string line; std::getline(file, line);) {
      line = line.substr(0, line.find('#'));
      line.erase(std::remove_if(line.begin(), line.end(), isspace), line.end());
      if (!line.empty()) text += (text.empty() ? "" : ",") + line;
    }
  }
  std::vector<std::string> hosts;
  std::istringstream names(text);
  for (std::string name; std::getline(names, name, ',');) {
    if (name.empty() || name[0] == '-' || name.find_first_of(" /'\"\\") != std::string::npos) {
      return Status(StatusCode::kInvalidArgument, Quote(name) + " is no name of a host",
                    "give names with commas between them: --hosts n1,n2,n3");
    }
    hosts.push_back(name);
  }
  if (hosts.empty()) return Status(StatusCode::kInvalidArgument, "no host is named");
  return hosts;
}

// The work of a single `start`. Ends the started processes unless it was successful.
class Starter {
 public:
  explicit Starter(Invocation& run) : run_(run) {}
  ~Starter() {
    if (launcher_ != nullptr && !done_) launcher_->Abort();
  }
  Starter(const Starter&) = delete;
  Starter& operator=(const Starter&) = delete;

  Status Start();
  const std::string& file() const { return file_; }

 private:
  Status Prepare();
  Status Launch();
  Status WaitUntilServing();
  void Print();
  Status ChooseWhere();
  Status ChooseOptions();
  Status CheckPart(const std::string& given, std::uint64_t bytes) const;
  Status DivideMemory(const std::vector<std::string>& passed);
  Status CheckPorts(const std::vector<std::string>& passed) const;
  Result<cluster_file::Examination> Examine() const;
  Status WaitForOthers();
  Status CheckNoneLives() const;
  Status MoveOldStateAside() const;
  Result<NvmFolders> MakeFoldersHere();
  Status MakeLauncher();
  Status WaitUntil(const std::function<bool()>& condition, const char* failure);
  Status NotAllJoined(const char* failure);
  void ShowEndOf(const std::string& log);
  struct Page {
    std::string url;
    std::string text;
  };
  Page FirstPage() const;

  Status CheckGoesOn();

  Invocation& run_;
  HeldSignals signals_;
  StartLock lock_;  // Until all serve.
  Where where_ = Where::kHere;
  std::vector<std::string> hosts_;
  bool insecure_ = false;
  std::uint32_t cores_ = 1;  // Cores of each daemon of a job step.
  std::string file_;
  LaunchPlan plan_;
  std::uint64_t timeout_ms_ = kStartHereMs;
  Deadline deadline_ = Deadline::AfterMs(kStartHereMs);
  std::unique_ptr<Launcher> launcher_;
  bool done_ = false;
};

Status Starter::ChooseWhere() {
  const bool by_host = run_.args.Has("--hosts") || run_.args.Has("--hostfile");
  if (by_host && run_.args.Has("--local")) {
    return Status(StatusCode::kInvalidArgument, "give only one of --local and --hosts");
  }
  if (run_.args.Has("--local")) {
    const std::string& text = run_.args.Text("--local");
    const auto nodes = text.empty() ? Result<std::uint64_t>(1) : ParseUnsigned(text);
    if (!nodes.ok() || *nodes == 0 || *nodes > kLocalMax) {
      return Status(StatusCode::kInvalidArgument, "--local: " + Quote(text) + " daemons",
                    "give a number from 1 to " + std::to_string(kLocalMax));
    }
    plan_.nodes = *nodes;
    return OkStatus();
  }
  if (by_host) {
    auto hosts = HostsOf(run_.args);
    if (!hosts.ok()) return hosts.status();
    where_ = Where::kHosts;
    hosts_ = *std::move(hosts);
    plan_.nodes = hosts_.size();
    return OkStatus();
  }
  const auto nodes = ParseUnsigned(EnvironmentOf("SLURM_JOB_NUM_NODES"));
  if (EnvironmentOf("SLURM_JOB_ID").empty() || !nodes.ok() || *nodes == 0) {
    return Status(StatusCode::kInvalidArgument, "where are the daemons to run?",
                  "here: kvctl start --local [N]; on other machines: --hosts n1,n2; or call it "
                  "inside a Slurm job");
  }
  where_ = Where::kStep;
  plan_.nodes = *nodes;
  return OkStatus();
}

Result<cluster_file::Examination> Starter::Examine() const {
  return cluster_file::Examine(file_, cluster_file::JobId(cluster_file::ProcessEnvironment()),
                               convert::ProbeCluster);
}

// The second of two simultaneous starts waits, and then finds the cluster of the first.
Status Starter::WaitForOthers() {
  bool is_told = false;
  return lock_.Take(file_, Deadline::AfterMs(timeout_ms_), [&] {
    if (!std::exchange(is_told, true)) {
      run_.out.Note("another kvctl start of " + file_ + " is at work: waiting for it");
    }
    signals_.EndAsked(static_cast<std::uint64_t>(kPollEvery.count()));
    return CheckGoesOn();
  });
}

Status Starter::CheckNoneLives() const {
  const auto found = Examine();
  if (!found.ok()) return found.status();
  if (found->finding != cluster_file::Finding::kLive) return OkStatus();
  return Status(StatusCode::kFailedPrecondition, "a cluster runs already, its file is " + file_,
                "use it, end it with kvctl stop, or give another --cluster FILE");
}

// Moves the state of the last cluster aside for later inspection, in place of any older state.
// `start` makes a new cluster. Daemons that find the state of killed processes would continue with
// it instead. Their order of start would then decide if the other daemons fit.
Status Starter::MoveOldStateAside() const {
  namespace fs = std::filesystem;
  const fs::path folder = cluster_file::DataFolderFor(file_);
  const fs::path previous = folder / "previous";
  std::vector<fs::path> old;
  std::error_code error;
  // With "--local", a folder that machines share may hold another machine's state.
  const std::string ours = where_ == Where::kHere ? cluster_file::HostName() + "." : "";
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename();
    if (name != "previous" && name != "logs" && name.starts_with(ours)) old.push_back(it->path());
  }
  if (old.empty()) return OkStatus();
  fs::remove_all(previous, error);
  if (!error) fs::create_directory(previous, error);
  for (const fs::path& path : old) {
    if (!error) fs::rename(path, previous / path.filename(), error);
  }
  if (!error) return OkStatus();
  return cluster_file::FileError("move aside what an earlier cluster left in", folder.string(),
                                 error.value());
}

// Two daemons cannot share a directory.
Result<NvmFolders> Starter::MakeFoldersHere() {
  if (!run_.args.Has("--nvm-dir")) return NvmFolders();
  std::error_code error;
  return MakeNvmFolders(std::filesystem::absolute(run_.args.Text("--nvm-dir"), error).string(),
                        plan_.nodes);
}

// Refuses a part of --memory in which no daemon can run. `given`: the memory that was divided.
Status Starter::CheckPart(const std::string& given, std::uint64_t bytes) const {
  if (bytes >= limits::kMemoryBytesMin) return OkStatus();
  const std::string nodes = std::to_string(plan_.nodes);
  const std::string divided = plan_.nodes == 1 ? "" : ", divided among " + nodes + " daemons";
  const std::uint64_t least_mib = (limits::kMemoryBytesMin >> 20) * plan_.nodes;
  return Status(StatusCode::kInvalidArgument,
                given + divided + ", is " + FormatBytes(bytes) +
                    (plan_.nodes == 1 ? "" : " for each") + "; the least for a daemon is " +
                    FormatBytes(limits::kMemoryBytesMin),
                "give --memory " + std::to_string(least_mib) + "MiB or more" +
                    (plan_.nodes == 1 ? "" : ", or start fewer daemons"));
}

// Gives each daemon of this machine its part of --memory. Without the option each daemon would take
// half of the available memory.
Status Starter::DivideMemory(const std::vector<std::string>& passed) {
  if (!run_.args.Has("--memory") && (plan_.nodes == 1 || Sets(passed, "--memory"))) {
    return OkStatus();
  }
  std::vector<std::string>& options = plan_.options;
  const std::string text = run_.args.Has("--memory") ? run_.args.Text("--memory") : "50%";
  if (!text.ends_with('%')) {
    const Result<std::uint64_t> bytes = run_.args.ByteCount("--memory", 0);
    if (!bytes.ok()) return bytes.status();
    options.insert(options.end(), {"--memory", std::to_string(*bytes / plan_.nodes)});
    return CheckPart("--memory " + text, *bytes / plan_.nodes);
  }
  const Result<double> percent = ParseDouble(std::string_view(text).substr(0, text.size() - 1));
  if (!percent.ok() || !(*percent > 0 && *percent <= 100)) {
    return Status(StatusCode::kInvalidArgument, "--memory cannot be " + Quote(text),
                  "give a size as 6GiB, or a percentage as 50%");
  }
  const double part = *percent / static_cast<double>(plan_.nodes);
  options.insert(options.end(), {"--memory", FormatDouble(part) + "%"});
  const std::uint64_t available =
      std::min(machine::MemInfoBytes("MemAvailable:"), machine::GroupMemoryBytes());
  if (available == 0) return OkStatus();  // Not known.
  return CheckPart("--memory " + text + " of the " + FormatBytes(available) + " available",
                   static_cast<std::uint64_t>(static_cast<double>(available) * part / 100));
}

// Refuses a port behind --: every daemon gets it, and the second daemon would find it taken.
Status Starter::CheckPorts(const std::vector<std::string>& passed) const {
  if (plan_.nodes == 1) return OkStatus();
  for (const char* const option : {"--port", "--metrics-port"}) {
    const std::string port = ValueOf(passed, option);
    if (port.empty() || port == "0" || port == "auto" || port == "off") continue;
    return Status(StatusCode::kInvalidArgument,
                  std::string(option) + " " + port + " is one port for " +
                      std::to_string(plan_.nodes) + " daemons of this machine",
                  "leave it out: each takes a free port, which kvctl status shows");
  }
  return OkStatus();
}

Status Starter::ChooseOptions() {
  const std::vector<std::string> passed =
      run_.args.Knows("KVD_OPTION") ? run_.args.All("KVD_OPTION") : std::vector<std::string>();
  const bool here = where_ == Where::kHere;
  std::vector<std::string>& options = plan_.options;
  const auto add = [&](const char* name, const std::string& value) {
    options.insert(options.end(), {name, value});
  };
  add("--nodes", std::to_string(plan_.nodes));
  add("--cluster", file_);
  if (here && !Sets(passed, "--interface")) add("--interface", "lo");
  insecure_ = Sets(passed, "--insecure") || run_.insecure();
  if (run_.insecure() && !here) options.emplace_back("--insecure");
  const Result<std::uint64_t> nvm_bytes = run_.args.ByteCount("--nvm-size", 0);
  if (!nvm_bytes.ok()) return nvm_bytes.status();
  if (*nvm_bytes > 0 && !run_.args.Has("--nvm-dir")) {
    return Status(StatusCode::kInvalidArgument, "--nvm-size without --nvm-dir",
                  "say where it is to be taken: --nvm-dir DIR");
  }
  if (*nvm_bytes > 0) add("--nvm-size", std::to_string(*nvm_bytes / (here ? plan_.nodes : 1)));
  if (here) {
    TP_RETURN_IF_ERROR(DivideMemory(passed));
    TP_RETURN_IF_ERROR(CheckPorts(passed));
  } else {
    if (run_.args.Has("--memory")) add("--memory", run_.args.Text("--memory"));
    if (run_.args.Has("--nvm-dir")) add("--nvm-dir", run_.args.Text("--nvm-dir"));
  }
  if (where_ == Where::kStep) {
    // A step receives a given number of CPUs of each node. A daemon would use only an eighth of
    // them.
    const auto given = ParseUnsigned(ValueOf(passed, "--cores"));
    const auto cpus = ParseUnsigned(EnvironmentOf("SLURM_CPUS_ON_NODE"));
    cores_ = given.ok()
                 ? static_cast<std::uint32_t>(*given)
                 : std::clamp<std::uint32_t>(cpus.ok() ? static_cast<std::uint32_t>(*cpus) / 8 : 1,
                                             1, kCoresByDefaultMax);
    if (!given.ok()) add("--cores", std::to_string(cores_));
  }
  options.insert(options.end(), passed.begin(), passed.end());
  return OkStatus();
}

Status Starter::MakeLauncher() {
  switch (where_) {
    case Where::kHere: {
      auto folders = MakeFoldersHere();
      if (!folders.ok()) return folders.status();
      launcher_ = LaunchHere(plan_, *std::move(folders), [this] {
        const auto lives = [this] {
          const auto found = Examine();
          return found.ok() && found->finding == cluster_file::Finding::kLive;
        };
        return WaitUntil(lives, "the coordinator of the cluster in --nvm-dir does not serve");
      });
      return OkStatus();
    }
    case Where::kStep:
      launcher_ = LaunchStep(plan_, cores_);
      return OkStatus();
    case Where::kHosts:
      launcher_ = LaunchBySsh(plan_, hosts_, file_);
      return OkStatus();
  }
  return OkStatus();
}

Status Starter::Prepare() {
  TP_RETURN_IF_ERROR(ChooseWhere());
  auto program = FindDaemonProgram();
  if (!program.ok()) return program.status();
  plan_.program = *std::move(program);
  auto file =
      cluster_file::PathForDaemon(run_.args.Text("--cluster"), cluster_file::ProcessEnvironment());
  if (!file.ok()) return file.status();
  std::error_code error;
  file_ = *std::move(file);
  if (where_ != Where::kHere) file_ = std::filesystem::absolute(file_, error).string();
  const Result<std::uint64_t> timeout_ms =
      run_.args.DurationMs("--timeout", where_ == Where::kHere ? kStartHereMs : kStartThereMs);
  if (!timeout_ms.ok()) return timeout_ms.status();
  timeout_ms_ = *timeout_ms;
  TP_RETURN_IF_ERROR(WaitForOthers());
  TP_RETURN_IF_ERROR(CheckNoneLives());
  TP_RETURN_IF_ERROR(ChooseOptions());
  TP_RETURN_IF_ERROR(MoveOldStateAside());
  plan_.log_folder = LogFolderOf(file_);
  if (where_ != Where::kHere) std::filesystem::remove_all(plan_.log_folder, error);
  TP_RETURN_IF_ERROR(cluster_file::MakeFolders(plan_.log_folder));
  deadline_ = Deadline::AfterMs(timeout_ms_);
  return MakeLauncher();
}

Status Starter::Launch() {
  TP_RETURN_IF_ERROR(launcher_->Launch());
  const Json record = {{"host", cluster_file::HostName()},
                       {"keeper", launcher_->keeper()},
                       {"pids", launcher_->pids()}};
  return cluster_file::ReplaceFile(plan_.log_folder + "/" + kLaunchRecordName, record.dump());
}

// On standard error, before the failure itself.
void Starter::ShowEndOf(const std::string& log) {
  const auto lines = LastLines(log, kLogLinesShown);
  if (lines.empty()) return;
  run_.out.Note("the end of " + log + ":");
  for (const std::string& line : lines) run_.out.Note("  " + ForTerminal(line));
}

Status Starter::WaitUntil(const std::function<bool()>& condition, const char* failure) {
  for (;;) {
    std::string log;
    if (Status running = launcher_->Check(&log); !running.ok()) {
      if (!log.empty()) ShowEndOf(log);
      return running;
    }
    if (condition()) return OkStatus();
    if (deadline_.Passed()) return NotAllJoined(failure);
    const auto pause = where_ == Where::kHere ? kPollEvery : kPollThereEvery;
    signals_.EndAsked(static_cast<std::uint64_t>(pause.count()));
    TP_RETURN_IF_ERROR(CheckGoesOn());
  }
}

// Returns kCancelled after a signal: without kvctl the daemons would stay for ever.
Status Starter::CheckGoesOn() {
  if (!signals_.EndAsked()) return OkStatus();
  return Status(StatusCode::kCancelled, "interrupted: the daemons that had started are ended");
}

Status Starter::NotAllJoined(const char* failure) {
  const auto file = cluster_file::Read(file_);
  std::set<std::string> joined;
  if (file.ok()) {
    for (const auto& node : file->nodes) joined.insert(node.host);
  }
  std::string missing;
  for (const Launcher::Place& place : launcher_->places()) {
    if (joined.contains(place.host)) continue;
    if (missing.empty()) ShowEndOf(place.log);
    missing += (missing.empty() ? ", not " : ", ") + place.host;
  }
  const std::size_t count = file.ok() ? file->nodes.size() : 0;
  return Status(StatusCode::kDeadlineExceeded,
                failure + (" after " + FormatDurationMs(timeout_ms_)) + "; " +
                    std::to_string(count) + " of " + std::to_string(plan_.nodes) + " have joined" +
                    missing,
                "their logs are in " + plan_.log_folder);
}

Status Starter::WaitUntilServing() {
  TP_RETURN_IF_ERROR(WaitUntil([this] { return AllServe(file_, plan_.nodes, insecure_); },
                               "the daemons do not all serve"));
  TP_RETURN_IF_ERROR(TryEachNode(file_, insecure_, deadline_));
  TP_RETURN_IF_ERROR(CheckGoesOn());
  done_ = true;
  return OkStatus();
}

Status Starter::Start() {
  TP_RETURN_IF_ERROR(Prepare());
  TP_RETURN_IF_ERROR(Launch());
  TP_RETURN_IF_ERROR(WaitUntilServing());
  Print();
  return OkStatus();
}

// Returns the status page of the first node that reports a page at once.
Starter::Page Starter::FirstPage() const {
  const auto channel = Channel::Connect(
      {.cluster = file_, .timeout_ms = kAskPageMs, .timeout_given = true, .insecure = insecure_});
  v1::StatusResponse status;
  if (!channel.ok() ||
      !(*channel)->Call<v1::Cluster>(&v1::Cluster::Stub::Status, {}, &status).ok()) {
    return {};
  }
  for (const auto& entry : status.nodes()) {
    const std::string& url = entry.status().metrics_url();
    if (url.empty()) continue;
    const std::string& host = entry.node().host();
    return {url,
            machine::PageText(url, host, machine::LoginHostOf(host, cluster_file::HostName()))};
  }
  return {};
}

void Starter::Print() {
  const std::vector<pid_t> pids = launcher_->pids();
  std::string processes;
  for (const pid_t pid : pids) {
    processes += (processes.empty() ? " (process " : ", ") + std::to_string(pid);
  }
  if (!processes.empty()) processes += ")";
  const std::string daemons =
      plan_.nodes == 1 ? "1 daemon" : std::to_string(plan_.nodes) + " daemons";
  // Programs that find the file themselves need no option.
  const auto user_file = cluster_file::Find("");
  const bool found_alone = user_file.ok() && user_file->path == file_;
  const std::string option = found_alone ? "" : "--cluster " + file_ + " ";
  const Page page = FirstPage();
  run_.out.Result({{"cluster_file", file_},
                   {"nodes", plan_.nodes},
                   {"pids", pids},
                   {"log_folder", plan_.log_folder},
                   {"metrics_url", page.url.empty() ? Json(nullptr) : Json(page.url)}},
                  "started " + daemons + processes + "\n" + "connection file " + file_ + "\n" +
                      "logs in         " + plan_.log_folder + "\n" +
                      (page.url.empty() ? "" : "status page     " + page.text + "\n") +
                      "try             kvctl " + option + "put default greeting hello\n" +
                      "                kvctl " + option + "get default greeting\n" +
                      "end with        kvctl " + option + "stop\n");
}

Status Start(Invocation& run) {
  std::string file;
  Status started;
  {
    Starter start(run);
    started = start.Start();
    file = start.file();
  }
  if (started.code() == StatusCode::kCancelled) {
    run.out.EndWith(HeldSignals::ExitCode());
    RemoveFolderOf(file);
  }
  return started;
}

}  // namespace

std::size_t KillLaunched(const std::string& cluster_file) {
  std::ifstream file(LogFolderOf(cluster_file) + "/" + kLaunchRecordName);
  const Json record = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!record.is_object() || record.value("host", "") != cluster_file::HostName()) return 0;
  std::size_t killed = 0;
  for (const pid_t pid : record.value("pids", std::vector<pid_t>())) {
    if (!IsDaemonAlive(pid) || kill(pid, SIGKILL) != 0) continue;
    ++killed;
    const Deadline gone = Deadline::AfterMs(kKillMs);
    while (IsDaemonAlive(pid) && !gone.Passed()) std::this_thread::sleep_for(kPollEvery);
  }
  return killed;
}

std::string LogFolderOf(const std::string& cluster_file) {
  return cluster_file::DataFolderFor(cluster_file) + "/logs";
}

std::vector<Option> WhereOptions() {
  return {
      {"--local", "[N]", "N daemons on this machine, each a node of one cluster (default 1)"},
      {"--hosts", "LIST", "one on each of these machines, by ssh: n1,n2,n3"},
      {"--hostfile", "FILE", "the same, one per line"},
      {"--memory", "SIZE",
       "with --local for all of them together, else of each node: 40GiB, or 50% (default: half of "
       "what the machine has available)"},
      {"--nvm-dir", "DIR",
       "what memory has no room for, and what is durable, goes to this directory of a local disk, "
       "in a folder for each daemon; another start of as many goes on with what is there"},
      {"--nvm-size", "SIZE",
       "of the disk, with --local for all of them together (default: 4 x memory)"}};
}

std::vector<Verb> StartVerbs() {
  std::vector<Option> options = WhereOptions();
  options.push_back({"--wait", "", "return when all serve; it always does"});
  return {
      {"start",
       "start daemons: on this machine, in a Slurm job, or by ssh",
       "Inside a Slurm job one on each node, as a job step beside what else runs there; with "
       "--local on this machine, serving on loopback; with --hosts one on each machine. They "
       "belong "
       "to this user, and go on when kvctl and the terminal have ended. Returns when all have "
       "joined and each has taken and given back a record; else it ends what it has started and "
       "says which node is at fault. Without --cluster the connection file is the job's, "
       "or that of the user's own default service, which every tool finds by itself. What follows "
       "-- goes to each kvd (see kvd --help).",
       {{"KVD_OPTION", "options of kvd, behind --", 0, Parameter::kAnyNumber}},
       options,
       {{"kvctl start --local", ""},
        {"kvctl start --local 3 --memory 6GiB", "three nodes of 2 GiB"},
        {"kvctl start --memory 50%", "in a Slurm job"},
        {"kvctl start --hosts n1,n2,n3 --cluster ~/my.json", ""},
        {"kvctl start --local --memory 2GiB --nvm-dir /local/me --nvm-size 40GiB",
         "data larger than memory"},
        {"kvctl start --local 2 -- --cores 2 --log-level debug", ""}},
       Start,
       "up launch serve"},
  };
}

}  // namespace tidepool::cli
