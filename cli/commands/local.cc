#include "cli/commands/local.h"

#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "cli/commands/nvm_folders.h"
#include "cli/invocation.h"
#include "cli/spawn.h"
#include "cli/text.h"
#include "proto/base/kind.h"
#include "proto/base/limits.h"
#include "proto/cluster_file/host_name.h"
#include "proto/cluster_file/published_file.h"
#include "proto/convert/probe_cluster.h"
#include "tidepool/v1/admin.grpc.pb.h"
#include "tidepool/v1/cluster.grpc.pb.h"
#include "tidepool/v1/namespaces.grpc.pb.h"

namespace tidepool::cli {
namespace {

// A daemon serves in 0.1 s; a machine that is busy with N of them needs longer.
constexpr std::uint64_t kStartTimeoutMs = 30'000;
constexpr std::uint64_t kStopTimeoutMs = 30'000;
constexpr std::chrono::milliseconds kPollEvery{20};
// One step of asking daemons that may not be there yet.
constexpr std::uint64_t kAskTimeoutMs = 1'000;

// What one `start` does. Ends what it has started unless it was successful.
class LocalStart {
 public:
  LocalStart(Invocation& run, std::uint64_t nodes) : run_(run), nodes_(nodes) {}
  ~LocalStart();
  LocalStart(const LocalStart&) = delete;
  LocalStart& operator=(const LocalStart&) = delete;

  Status Prepare();
  Status Spawn();
  Status WaitUntilServing();
  void Print();

 private:
  Result<cluster_file::Examination> Examine() const;
  Status CheckNoneLives() const;
  Status MoveOldStateAside() const;
  Status MakeFolders();
  Status SpawnOne(std::size_t node);
  Status WaitUntil(const std::function<bool()>& condition, const char* failure);
  std::string LogOf(std::size_t node) const {
    return log_folder_ + "/kvd-" + std::to_string(node) + ".log";
  }
  Status CheckChildren();
  bool AllServe() const;

  Invocation& run_;
  const std::uint64_t nodes_;
  std::string program_;
  std::string file_;
  std::string log_folder_;
  std::vector<std::string> options_;
  NvmFolders nvm_;  // Without paths: none was named.
  std::uint64_t timeout_ms_ = kStartTimeoutMs;
  Deadline deadline_ = Deadline::AfterMs(kStartTimeoutMs);
  struct Child {
    pid_t pid;
    std::size_t node;
  };
  std::vector<Child> children_;
  bool done_ = false;
};

LocalStart::~LocalStart() {
  if (done_) return;
  for (const Child& child : children_) kill(child.pid, SIGTERM);
  const Deadline deadline = Deadline::AfterMs(5'000);
  for (const Child& child : children_) {
    while (!deadline.Passed() && !ChildHasEnded(child.pid)) std::this_thread::sleep_for(kPollEvery);
    if (IsDaemonAlive(child.pid)) kill(child.pid, SIGKILL);
  }
}

// True if some option of `options` sets `name`.
bool Sets(const std::vector<std::string>& options, const std::string& name) {
  return std::any_of(options.begin(), options.end(), [&](const std::string& option) {
    return option == name || option.starts_with(name + "=");
  });
}

Result<cluster_file::Examination> LocalStart::Examine() const {
  return cluster_file::Examine(file_, cluster_file::JobId(cluster_file::ProcessEnvironment()),
                               convert::ProbeCluster);
}

Status LocalStart::CheckNoneLives() const {
  const auto found = Examine();
  if (!found.ok()) return found.status();
  if (found->finding != cluster_file::Finding::kLive) return OkStatus();
  return Status(StatusCode::kFailedPrecondition, "a cluster runs already, its file is " + file_,
                "use it, end it with kvctl stop, or give another --cluster FILE");
}

// `start` makes a new cluster. Daemons that find the state of an earlier one, whose processes were
// killed, would go on with that instead, and whether the others then fit depends on who comes
// first. The state is kept beside, once, for whoever needs to look at it.
Status LocalStart::MoveOldStateAside() const {
  namespace fs = std::filesystem;
  const fs::path folder = cluster_file::DataFolderFor(file_);
  const fs::path previous = folder / "previous";
  std::vector<fs::path> old;
  std::error_code error;
  const std::string ours = cluster_file::HostName() + ".";
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().starts_with(ours)) old.push_back(it->path());
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
Status LocalStart::MakeFolders() {
  const Result<std::uint64_t> bytes = run_.args.ByteCount("--nvm-size", 0);
  if (!bytes.ok()) return bytes.status();
  if (!run_.args.Has("--nvm-dir")) {
    if (*bytes == 0) return OkStatus();
    return Status(StatusCode::kInvalidArgument, "--nvm-size without --nvm-dir",
                  "say where it is to be taken: --nvm-dir DIR");
  }
  std::error_code error;
  auto folders = MakeNvmFolders(
      std::filesystem::absolute(run_.args.Text("--nvm-dir"), error).string(), nodes_);
  if (!folders.ok()) return folders.status();
  nvm_ = *std::move(folders);
  if (*bytes > 0) {
    options_.insert(options_.end(), {"--nvm-size", std::to_string(*bytes / nodes_)});
  }
  return OkStatus();
}

Status LocalStart::Prepare() {
  auto program = FindDaemonProgram();
  if (!program.ok()) return program.status();
  program_ = *std::move(program);
  auto file =
      cluster_file::PathForDaemon(run_.args.Text("--cluster"), cluster_file::ProcessEnvironment());
  if (!file.ok()) return file.status();
  file_ = *std::move(file);
  TP_RETURN_IF_ERROR(CheckNoneLives());
  TP_RETURN_IF_ERROR(MoveOldStateAside());
  log_folder_ = cluster_file::DataFolderFor(file_) + "/logs";
  TP_RETURN_IF_ERROR(cluster_file::MakeFolders(log_folder_));

  const std::vector<std::string> passed = run_.args.All("KVD_OPTION");
  options_ = {"--nodes", std::to_string(nodes_), "--cluster", file_};
  if (!Sets(passed, "--interface")) options_.insert(options_.end(), {"--interface", "lo"});
  const Result<std::uint64_t> memory = run_.args.ByteCount("--memory", 0);
  if (!memory.ok()) return memory.status();
  if (run_.args.Has("--memory")) {
    options_.insert(options_.end(), {"--memory", std::to_string(*memory / nodes_)});
  } else if (nodes_ > 1 && !Sets(passed, "--memory")) {
    // Each would take half of what is available.
    options_.insert(options_.end(),
                    {"--memory", FormatDouble(50.0 / static_cast<double>(nodes_)) + "%"});
  }
  const Result<std::uint64_t> timeout_ms = run_.args.DurationMs("--timeout", kStartTimeoutMs);
  if (!timeout_ms.ok()) return timeout_ms.status();
  timeout_ms_ = *timeout_ms;
  deadline_ = Deadline::AfterMs(timeout_ms_);
  TP_RETURN_IF_ERROR(MakeFolders());
  options_.insert(options_.end(), passed.begin(), passed.end());
  return OkStatus();
}

Status LocalStart::SpawnOne(std::size_t node) {
  std::vector<std::string> options = options_;
  if (!nvm_.paths.empty()) options.insert(options.end(), {"--nvm-dir", nvm_.paths[node]});
  const Result<pid_t> pid = SpawnDetached(program_, options, LogOf(node));
  if (!pid.ok()) return pid.status();
  children_.push_back({*pid, node});
  return OkStatus();
}

Status LocalStart::Spawn() {
  if (nvm_.coordinator.has_value()) {
    TP_RETURN_IF_ERROR(SpawnOne(*nvm_.coordinator));
    const auto lives = [this] {
      const auto found = Examine();
      return found.ok() && found->finding == cluster_file::Finding::kLive;
    };
    TP_RETURN_IF_ERROR(
        WaitUntil(lives, "the coordinator of the cluster in --nvm-dir does not serve"));
  }
  for (std::size_t i = 0; i < nodes_; ++i) {
    if (i != nvm_.coordinator) TP_RETURN_IF_ERROR(SpawnOne(i));
  }
  std::sort(children_.begin(), children_.end(),
            [](const Child& a, const Child& b) { return a.node < b.node; });
  return OkStatus();
}

Status LocalStart::CheckChildren() {
  for (std::size_t i = 0; i < children_.size(); ++i) {
    const Child child = children_[i];
    if (!ChildHasEnded(child.pid)) continue;
    children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(i));
    const std::string last = LastLine(LogOf(child.node));
    return Status(StatusCode::kFailedPrecondition,
                  "a daemon ended while starting" + (last.empty() ? "" : ": " + last),
                  "its log is " + LogOf(child.node));
  }
  return OkStatus();
}

bool LocalStart::AllServe() const {
  const auto channel = Channel::Connect({.cluster = file_,
                                         .timeout_ms = kAskTimeoutMs,
                                         .timeout_given = true,
                                         .insecure = Sets(options_, "--insecure")});
  if (!channel.ok()) return false;  // No file yet, or nobody listens yet.
  v1::StatusResponse status;
  const Status asked = (*channel)->Call<v1::Cluster>(&v1::Cluster::Stub::Status, {}, &status);
  // Also while the file is still that of a dead cluster, at whose address somebody else's daemon
  // may listen now, which does not know its token.
  if (!asked.ok() || status.forming()) return false;
  const auto up = std::count_if(status.nodes().begin(), status.nodes().end(), [](const auto& node) {
    return node.node().state() == v1::NODE_STATE_UP && node.has_status();
  });
  if (static_cast<std::uint64_t>(up) != nodes_) return false;
  // The coordinator adds them to the file a little later; programs begin with what stands there.
  const auto file = cluster_file::Read(file_);
  return file.ok() && file->nodes.size() == nodes_;
}

Status LocalStart::WaitUntil(const std::function<bool()>& condition, const char* failure) {
  for (;;) {
    TP_RETURN_IF_ERROR(CheckChildren());
    if (condition()) return OkStatus();
    if (deadline_.Passed()) {
      return Status(StatusCode::kDeadlineExceeded,
                    failure + (" after " + FormatDurationMs(timeout_ms_)),
                    "their logs are in " + log_folder_);
    }
    std::this_thread::sleep_for(kPollEvery);
  }
}

Status LocalStart::WaitUntilServing() {
  TP_RETURN_IF_ERROR(WaitUntil([this] { return AllServe(); }, "the daemons do not all serve"));
  done_ = true;
  return OkStatus();
}

void LocalStart::Print() {
  std::string pids;
  std::vector<pid_t> numbers;
  for (const Child& child : children_) {
    pids += (pids.empty() ? "" : ", ") + std::to_string(child.pid);
    numbers.push_back(child.pid);
  }
  const std::string daemons = nodes_ == 1 ? "1 daemon" : std::to_string(nodes_) + " daemons";
  // What finds the file by itself needs no option.
  const auto user_file = cluster_file::Find("");
  const bool found_alone = user_file.ok() && user_file->path == file_;
  const std::string option = found_alone ? "" : "--cluster " + file_ + " ";
  run_.out.Result({{"cluster_file", file_}, {"pids", numbers}, {"log_folder", log_folder_}},
                  "started " + daemons + " (process " + pids + ")\n" + "connection file " + file_ +
                      "\n" + "logs in         " + log_folder_ + "\n" + "try             kvctl " +
                      option + "put default greeting hello\n" + "                kvctl " + option +
                      "get default greeting\n" + "end with        kvctl " + option + "stop\n");
}

Status Start(Invocation& run) {
  if (!run.args.Has("--local")) {
    return Status(StatusCode::kInvalidArgument, "start needs --local [N] in this version",
                  "on several machines start kvd on each: srun kvd --insecure");
  }
  const std::string& text = run.args.Text("--local");
  const Result<std::uint64_t> nodes = text.empty() ? Result<std::uint64_t>(1) : ParseUnsigned(text);
  if (!nodes.ok() || *nodes == 0 || *nodes > 64) {
    return Status(StatusCode::kInvalidArgument, "--local: " + Quote(text) + " daemons",
                  "give a number from 1 to 64");
  }
  LocalStart start(run, *nodes);
  TP_RETURN_IF_ERROR(start.Prepare());
  TP_RETURN_IF_ERROR(start.Spawn());
  TP_RETURN_IF_ERROR(start.WaitUntilServing());
  start.Print();
  return OkStatus();
}

// stop

// "name (17 records, 1.2 KiB), ..."
std::string ForPeople(const v1::CheckStopResponse& check) {
  std::string text;
  for (const auto& loss : check.losses()) {
    text += (text.empty() ? "" : ", ") + loss.namespace_() + " (" + std::to_string(loss.records()) +
            (loss.records() == 1 ? " record, " : " records, ") + FormatBytes(loss.bytes()) + ")";
  }
  for (const std::string& node : check.nodes_unknown()) {
    text += (text.empty() ? "" : ", ") + ("what " + node + " holds, which does not answer");
  }
  return text;
}

Json ToJson(const v1::CheckStopResponse& check) {
  Json losses = Json::array();
  for (const auto& loss : check.losses()) {
    losses.push_back(
        {{"namespace", loss.namespace_()}, {"records", loss.records()}, {"bytes", loss.bytes()}});
  }
  Json unknown = Json::array();
  for (const std::string& node : check.nodes_unknown()) unknown.push_back(node);
  return {{"losses", std::move(losses)}, {"nodes_unknown", std::move(unknown)}};
}

// How what would be lost is saved, which its namespaces' kinds decide.
Result<std::string> SavingAdvice(Channel& channel, const v1::CheckStopResponse& check) {
  v1::ListNamespacesResponse all;
  TP_RETURN_IF_ERROR(channel.Call<v1::Namespaces>(&v1::Namespaces::Stub::List, {}, &all));
  std::set<std::string> lost;
  for (const auto& loss : check.losses()) lost.insert(loss.namespace_());
  KindMask kinds = 0;
  for (const v1::NamespaceMap& space : all.namespaces()) {
    if (lost.contains(space.name())) kinds |= MaskOf(static_cast<Kind>(space.kind()));
  }
  std::string advice;
  const auto add = [&](KindMask any, std::string_view text) {
    if ((kinds & any) == 0) return;
    if (!advice.empty()) advice += ", ";
    advice += text;
  };
  add(MaskOf(Kind::kHash), "save records with kvctl stage out or kvctl dump");
  add(MaskOf(Kind::kOrdered), "save those of kind ordered with kvctl dump");
  add(MaskOf(Kind::kQueue) | MaskOf(Kind::kPriority),
      "take items out of queues with kvctl pop --all");
  add(MaskOf(Kind::kBloom), "filters cannot be saved");
  return advice + (advice.empty() ? "" : "; or ") + "give --discard";
}

// The daemons of the cluster. Errors: kUnimplemented if some are on other machines.
Result<std::vector<pid_t>> DaemonsHere(Channel& channel) {
  v1::StatusResponse status;
  TP_RETURN_IF_ERROR(channel.Call<v1::Cluster>(&v1::Cluster::Stub::Status, {}, &status));
  std::vector<pid_t> pids;
  for (const auto& entry : status.nodes()) {
    if (entry.node().state() == v1::NODE_STATE_LEFT) continue;
    if (entry.node().host() != cluster_file::HostName()) {
      return Status(StatusCode::kUnimplemented,
                    "node " + std::to_string(entry.node().node_id()) + " runs on " +
                        entry.node().host() + "; this version stops daemons of this machine only",
                    "end the others with SIGTERM, or end their job step");
    }
    pids.push_back(static_cast<pid_t>(entry.node().pid()));
  }
  return pids;
}

Status WaitUntilGone(Invocation& run, std::vector<pid_t> pids) {
  const Result<std::uint64_t> timeout_ms = run.args.DurationMs("--timeout", kStopTimeoutMs);
  if (!timeout_ms.ok()) return timeout_ms.status();
  const Deadline deadline = Deadline::AfterMs(*timeout_ms);
  for (;;) {
    std::erase_if(pids, [](pid_t pid) { return !IsDaemonAlive(pid); });
    if (pids.empty()) return OkStatus();
    if (deadline.Passed()) break;
    std::this_thread::sleep_for(kPollEvery);
  }
  std::string left;
  for (const pid_t pid : pids) left += (left.empty() ? "" : ", ") + std::to_string(pid);
  return Status(StatusCode::kDeadlineExceeded,
                "process " + left + " still runs after " + FormatDurationMs(*timeout_ms),
                "a daemon that does not answer ends with SIGKILL only");
}

Status Stop(Invocation& run) {
  const Result<Channel*> connected = run.Connect();
  if (!connected.ok()) return connected.status();
  Channel& channel = **connected;
  Result<std::vector<pid_t>> pids = DaemonsHere(channel);
  if (!pids.ok()) return pids.status();
  const bool discard = run.args.Has("--discard");
  v1::CheckStopRequest of_all;
  of_all.set_cluster(true);
  v1::CheckStopResponse check;
  TP_RETURN_IF_ERROR(channel.Call<v1::Admin>(&v1::Admin::Stub::CheckStop, of_all, &check));
  const std::string losses = ForPeople(check);
  Json result = ToJson(check);
  if (!losses.empty() && !discard) {
    Result<std::string> advice = SavingAdvice(channel, check);
    if (!advice.ok()) return advice.status();
    run.out.Result(result, "");
    return Status(StatusCode::kFailedPrecondition,
                  "stopping would lose what is neither staged out nor durable: " + losses,
                  *std::move(advice));
  }
  v1::StopRequest request;
  request.set_discard(discard);
  request.set_cluster(true);
  v1::StopResponse response;
  TP_RETURN_IF_ERROR(channel.Call<v1::Admin>(&v1::Admin::Stub::Stop, request, &response));
  const std::size_t count = pids->size();
  TP_RETURN_IF_ERROR(WaitUntilGone(run, *std::move(pids)));
  result["nodes_stopped"] = count;
  run.out.Result(result, "stopped " + std::to_string(count) +
                             (count == 1 ? " daemon" : " daemons") +
                             (losses.empty() ? "" : "; discarded " + losses));
  return OkStatus();
}

}  // namespace

std::vector<Verb> LocalVerbs() {
  return {
      {"start",
       "start daemons on this machine",
       "They serve on loopback, belong to this user, and go on when kvctl and the terminal have "
       "ended. Without --cluster it is the user's own default service, which every tool finds by "
       "itself. What follows -- goes to each kvd (see kvd --help).",
       {{"KVD_OPTION", "options of kvd, behind --", 0, Parameter::kAnyNumber}},
       {{"--local", "[N]", "N daemons, each a node of one cluster (default 1)"},
        {"--memory", "SIZE",
         "for all of them together (default: half of what the machine has available)"},
        {"--nvm-dir", "DIR",
         "what memory has no room for, and what is durable, goes to this directory of a local "
         "disk, "
         "in a folder for each daemon; another start of as many goes on with what is there"},
        {"--nvm-size", "SIZE", "of the disk, for all of them together (default: 4 x memory)"}},
       {{"kvctl start --local", ""},
        {"kvctl start --local 3 --memory 6GiB", "three nodes of 2 GiB"},
        {"kvctl start --local --memory 2GiB --nvm-dir /local/me --nvm-size 40GiB",
         "data larger than memory"},
        {"kvctl start --local 2 -- --cores 2 --log-level debug", ""}},
       Start,
       "up run launch serve"},
      {"stop",
       "stop the daemons, unless something would be lost",
       "Refuses and names the namespaces that are neither staged out nor durable nor empty. One "
       "that "
       "has not changed since all of it was staged in counts as staged out: its files are there.",
       {},
       {{"--discard", "", "stop also if that loses data"}},
       {{"kvctl stop", ""}, {"kvctl stop --discard", ""}},
       Stop,
       "down quit shutdown kill exit"},
  };
}

}  // namespace tidepool::cli
