#include "cli/commands/cluster/stop.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "cli/commands/cluster/start.h"
#include "cli/commands/cluster/start_lock.h"
#include "cli/invocation.h"
#include "cli/poll.h"
#include "cli/spawn.h"
#include "cli/step.h"
#include "cli/text.h"
#include "proto/base/clock.h"
#include "proto/base/kind.h"
#include "proto/cluster_file/find.h"
#include "proto/cluster_file/host_name.h"
#include "proto/cluster_file/published_file.h"
#include "proto/transport/ring_socket.h"
#include "tidepool/v1/admin.grpc.pb.h"
#include "tidepool/v1/cluster.grpc.pb.h"
#include "tidepool/v1/namespaces.grpc.pb.h"

namespace tidepool::cli {
namespace {

constexpr std::uint64_t kStopTimeoutMs = 30'000;
// Timeout of the question if a daemon still listens.
constexpr std::uint64_t kGoneTimeoutMs = 500;

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

// Returns advice how to save the data, which depends on the kinds of the namespaces.
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
  // A snapshot has all of it, but the daemons do not know of that.
  return advice + (advice.empty() ? "" : "; or ") +
         "keep it with kvctl snapshot create, and then give --discard";
}

// Objects that must be gone when the cluster has ended.
struct Remains {
  std::vector<pid_t> here;             // Daemons of this machine.
  std::vector<std::string> elsewhere;  // Control addresses of daemons on other machines.
  pid_t keeper = 0;                    // The process here that holds their job step.
  std::size_t nodes = 0;
};

// Returns the process that kvctl start has noted beside the logs.
pid_t KeeperOf(const std::string& cluster_file) {
  std::ifstream file(LogFolderOf(cluster_file) + "/" + kLaunchRecordName);
  const Json record = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!record.is_object() || record.value("host", "") != cluster_file::HostName()) return 0;
  return record.value("keeper", 0);
}

Result<Remains> RemainsOf(Channel& channel) {
  v1::StatusResponse status;
  TP_RETURN_IF_ERROR(channel.Call<v1::Cluster>(&v1::Cluster::Stub::Status, {}, &status));
  Remains remains;
  for (const auto& entry : status.nodes()) {
    if (entry.node().state() == v1::NODE_STATE_LEFT) continue;
    ++remains.nodes;
    if (entry.node().host() == cluster_file::HostName()) {
      remains.here.push_back(static_cast<pid_t>(entry.node().pid()));
    } else if (entry.node().state() == v1::NODE_STATE_UP) {
      remains.elsewhere.push_back(entry.node().control_address());
    }
  }
  remains.keeper = KeeperOf(channel.found().path);
  return remains;
}

Status WaitUntilGone(const Channel& channel, Remains remains, std::uint64_t timeout_ms) {
  const Deadline deadline = Deadline::AfterMs(timeout_ms);
  std::string left;
  const auto add = [&left](const std::string& what) { left += (left.empty() ? "" : ", ") + what; };
  do {
    left.clear();
    std::erase_if(remains.here, [](pid_t pid) { return !IsDaemonAlive(pid); });
    std::erase_if(remains.elsewhere, [&](const std::string& address) {
      return !channel.ConnectTo(address, Deadline::AfterMs(kGoneTimeoutMs)).ok();
    });
    for (const pid_t pid : remains.here) add("process " + std::to_string(pid));
    for (const std::string& address : remains.elsewhere) add("the daemon at " + address);
    // Last: it ends by itself, moments after them.
    if (left.empty() && IsProgramAlive(remains.keeper, "srun")) add("srun");
    if (left.empty()) return OkStatus();
    std::this_thread::sleep_for(kPollEvery);
  } while (!deadline.Passed());
  return Status(StatusCode::kDeadlineExceeded,
                left + " still runs after " + FormatDurationMs(timeout_ms),
                "a daemon that does not answer ends with SIGKILL only");
}

// The sockets of this machine at which a killed daemon of this user listened.
void RemoveDeadSockets() {
  const auto path =
      cluster_file::UserServicePath(cluster_file::ProcessEnvironment(), /*make_folder=*/false);
  if (path.ok()) transport::RemoveDeadRings(cluster_file::FolderOf(*path));
}

Status StageOutFirst(Invocation& run, const std::string& cluster_file) {
  const auto specs = StageOutSpecs(run.args);
  if (!specs.ok()) return specs.status();
  for (const StageSpec& spec : *specs) {
    const Status staged = RunStep(run, cluster_file, {"stage", "out", spec.space, spec.directory});
    if (staged.ok()) continue;
    return Status(staged.code(),
                  Quote(spec.space) + " was not staged out: " + std::string(staged.what()),
                  "the daemons still run; try again, or stop without --stage-out " + spec.space);
  }
  return OkStatus();
}

Status StopDaemons(Invocation& run) {
  const Result<std::uint64_t> timeout_ms = run.args.DurationMs("--timeout", kStopTimeoutMs);
  if (!timeout_ms.ok()) return timeout_ms.status();
  const Result<Channel*> connected = run.Connect();
  if (!connected.ok()) return connected.status();
  Channel& channel = **connected;
  const std::string& file = channel.found().path;
  TP_RETURN_IF_ERROR(StageOutFirst(run, file));
  Result<Remains> remains = RemainsOf(channel);
  if (!remains.ok()) return remains.status();
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
  const std::size_t count = remains->nodes;
  TP_RETURN_IF_ERROR(WaitUntilGone(channel, *std::move(remains), *timeout_ms));
  RemoveFolderOf(file);
  result["nodes_stopped"] = count;
  run.out.Result(result, "stopped " + std::to_string(count) +
                             (count == 1 ? " daemon" : " daemons") +
                             (losses.empty() ? "" : "; discarded " + losses));
  return OkStatus();
}

// Whatever became of the daemons, also if they were killed and do not answer.
Status Stop(Invocation& run) {
  const Status stopped = StopDaemons(run);
  RemoveDeadSockets();
  return stopped;
}

}  // namespace

void RemoveFolderOf(const std::string& cluster_file) {
  namespace fs = std::filesystem;
  std::error_code error;
  const auto lock = cluster_file::TakeStartLock(cluster_file, 0);
  if (!lock.ok() || fs::exists(cluster_file, error)) return;
  fs::remove_all(cluster_file::DataFolderFor(cluster_file), error);
  fs::remove(cluster_file + ".lock", error);
  StartLock left;  // By a kvctl start that was killed. The lock's end removes it.
  (void)left.Take(cluster_file, Deadline::AfterMs(0), [] { return OkStatus(); });
}

std::vector<Verb> StopVerbs() {
  return {
      {"stop",
       "stop the daemons, unless something would be lost",
       "Refuses and names the namespaces that are neither staged out nor durable nor empty. One "
       "that "
       "has not changed since all of it was staged in counts as staged out: its files are there. "
       "Nothing but durable records stays of the cluster.",
       {},
       {StageOutOption(), {"--discard", "", "stop also if that loses data"}},
       {{"kvctl stop", ""},
        {"kvctl stop --stage-out results:/scratch/results", ""},
        {"kvctl stop --discard", ""}},
       Stop,
       "down quit shutdown kill exit"},
  };
}

}  // namespace tidepool::cli
