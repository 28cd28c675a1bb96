#include "cli/commands/cluster/doctor.h"

#include <tidepool/bytes_map.h>
#include <tidepool/client.h>
#include <tidepool/network.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/commands/cluster/disk_speed.h"
#include "cli/commands/cluster/doctor_file.h"
#include "cli/commands/cluster/doctor_rules.h"
#include "cli/commands/data/sdk_client.h"
#include "cli/help.h"
#include "cli/text.h"
#include "proto/machine/machine_facts.h"
#include "tidepool/v1/admin.grpc.pb.h"
#include "tidepool/v1/cluster.grpc.pb.h"

namespace tidepool::cli {
namespace {

constexpr std::uint64_t kAskNodeMs = 3000;
constexpr int kClockLooks = 3;
// A client requests the daemon's memory at its first reads, and connects to an RDMA device beside
// them. On a quiet machine the request takes a millisecond, on a busy machine a second.
constexpr std::uint64_t kProbeMs = 5000;
constexpr int kProbeKeys = 256;
constexpr const char* kDefaultSpace = "default";  // Which always exists.

Place ThisProgram() {
  Place here;
  here.name = "here";
  here.facts = machine::ReadMachineFacts();
  here.facts.set_network_library(NetworkLibrary());
  for (const NetworkWay& way : NetworkWays()) {
    auto* to = here.facts.add_ways();
    to->set_transport(way.transport);
    to->set_device(way.device);
  }
  return here;
}

// The fastest call gives the best estimate of the clocks' difference.
Status AskMachine(Channel& channel, Place* place) {
  place->clock_error_ms = UINT64_MAX;
  for (int i = 0; i < kClockLooks; ++i) {
    v1::MachineResponse response;
    const std::uint64_t wall_ms = Clock::Real().WallMs();
    const std::uint64_t begin_ns = Clock::Real().MonotonicNs();
    TP_RETURN_IF_ERROR(channel.CallBy<v1::Admin>(&v1::Admin::Stub::Machine, v1::MachineRequest(),
                                                 &response, Deadline::AfterMs(kAskNodeMs)));
    const std::uint64_t took_ms = (Clock::Real().MonotonicNs() - begin_ns) / 1'000'000;
    // It looked at its clock somewhere between the two, all three of which are cut to milliseconds.
    const std::uint64_t error_ms = (took_ms + 1) / 2 + 1;
    if (error_ms < place->clock_error_ms) {
      place->clock_error_ms = error_ms;
      place->clock_ahead_ms = static_cast<std::int64_t>(response.facts().wall_ms()) -
                              static_cast<std::int64_t>(wall_ms + took_ms / 2);
    }
    place->facts = std::move(*response.mutable_facts());
  }
  return OkStatus();
}

// "127.0.0.1:9100" of "http://127.0.0.1:9100/".
std::string AddressOfUrl(const std::string& url) {
  const std::size_t scheme = url.find("://");
  if (scheme == std::string::npos) return "";
  const std::string rest = url.substr(scheme + 3);
  return rest.substr(0, rest.find('/'));
}

// A daemon that does not run is a finding instead. Nodes that have left do not count.
std::vector<Place> AskDaemons(Channel& channel, const v1::StatusResponse& status,
                              Findings* findings) {
  std::vector<Place> daemons;
  for (const auto& entry : status.nodes()) {
    const v1::Node& node = entry.node();
    if (node.state() == v1::NODE_STATE_LEFT) continue;
    Place place;
    place.name = "node " + std::to_string(node.node_id()) + " (" + node.host() + ")";
    place.daemon = true;
    place.control_address = node.control_address();
    place.metrics_address = AddressOfUrl(entry.status().metrics_url());
    place.version = node.version();
    place.cores = node.cores();
    place.memory_limit_bytes = entry.status().memory().limit_bytes();
    Status asked(StatusCode::kUnavailable, entry.error().empty() ? "is down" : entry.error());
    if (node.state() == v1::NODE_STATE_UP) {
      auto connected = channel.ConnectTo(node.control_address(), Deadline::AfterMs(kAskNodeMs));
      asked = connected.status();
      if (asked.ok()) asked = AskMachine(**connected, &place);
    }
    if (asked.ok()) {
      daemons.push_back(std::move(place));
    } else {
      findings->push_back({Level::kProblem, "network", place.name,
                           "does not answer: " + std::string(asked.what()),
                           "its log says why it ended, if it has; see kvctl status"});
    }
  }
  return daemons;
}

// Reads keys of each node until the client reads them directly, or until the time is over. Direct
// reads need no message on this machine, and use RDMA beyond it.
void ProbeReads(Client& client, bool wants_rdma, std::vector<Place>* daemons,
                const std::vector<std::uint32_t>& nodes) {
  const auto map = client.Open<BytesMap>(kDefaultSpace);
  if (!map.ok()) return;
  std::map<std::uint32_t, std::string> keys;
  for (int i = 0; i < kProbeKeys && keys.size() < nodes.size(); ++i) {
    std::string key = "kvctl-doctor-" + std::to_string(i);
    keys.try_emplace(map->space().OwnerOf(key), std::move(key));
  }
  const CallOptions options{.timeout = std::chrono::milliseconds(kProbeMs)};
  for (std::size_t i = 0; i < daemons->size(); ++i) {
    Place& place = (*daemons)[i];
    const auto key = keys.find(nodes[i]);
    if (!place.reached || key == keys.end()) continue;
    const bool by_ring = place.data_path.rfind("ring", 0) == 0;
    if (!by_ring && !wants_rdma) continue;
    const Deadline deadline = Deadline::AfterMs(kProbeMs);
    while (!deadline.Passed()) {
      const std::uint64_t before = client.Stats().direct_reads;
      (void)map->Get(key->second, options);
      if (client.Stats().direct_reads == before) continue;
      place.direct_reads = by_ring;
      break;
    }
  }
}

void MeasurePaths(Invocation& run, bool wants_rdma, const v1::StatusResponse& status,
                  std::vector<Place>* daemons, Findings* findings) {
  Result<Client> client = ConnectSdk(run, /*uncounted=*/true);
  if (!client.ok()) {
    findings->push_back({Level::kProblem, "network", "here",
                         "no program can connect: " + std::string(client.status().what()),
                         std::string(client.status().remedy())});
    for (Place& place : *daemons) place.error = client.status().what();
    return;
  }
  std::vector<std::uint32_t> nodes;
  const std::vector<PingResult> pings = client->Ping();
  for (Place& place : *daemons) {
    const auto entry =
        std::find_if(status.nodes().begin(), status.nodes().end(), [&place](const auto& each) {
          return each.node().control_address() == place.control_address;
        });
    nodes.push_back(entry->node().node_id());
    for (const PingResult& ping : pings) {
      if (ping.node != nodes.back()) continue;
      place.reached = ping.status.ok();
      place.data_path = ping.data_path;
      place.error = ping.status.what();
    }
  }
  ProbeReads(*client, wants_rdma, daemons, nodes);
  const ClientDescription description = client->Describe();
  for (std::size_t i = 0; i < daemons->size(); ++i) {
    for (const NodeInfo& node : description.nodes) {
      if (node.id == nodes[i] && !node.data_path.empty()) {
        (*daemons)[i].data_path = node.data_path;
      }
    }
  }
}

void JudgeDevices(const v1::StatusResponse& status, Findings* findings) {
  for (const auto& entry : status.nodes()) {
    const std::string name =
        "node " + std::to_string(entry.node().node_id()) + " (" + entry.node().host() + ")";
    for (const v1::DeviceStatus& device : entry.status().devices()) {
      findings->push_back({Level::kOk, "nvm", name,
                           device.description() + ", " + FormatBytes(device.used_bytes()) +
                               " used of " + FormatBytes(device.bytes()) +
                               "; kvctl doctor --nvm-dir DIR, there, measures it",
                           std::string()});
    }
    if (entry.status().devices_failed()) {
      findings->push_back({Level::kProblem, "nvm", name,
                           "a device has failed: nothing becomes durable any more",
                           "see its log and the kernel's; kvd check tells what is sound"});
    }
  }
}

Status LookAtCluster(Invocation& run, bool require_rdma, const Place& here, Findings* findings) {
  const Result<Channel*> channel = run.Connect();
  v1::StatusResponse status;
  Status reached = channel.status();
  if (reached.ok()) {
    reached = (*channel)->Call<v1::Cluster>(&v1::Cluster::Stub::Status, {}, &status);
  }
  if (!reached.ok()) {
    // A wrong option is no finding.
    if (reached.code() == StatusCode::kInvalidArgument) return reached;
    findings->push_back({Level::kProblem, "network", "here",
                         "the cluster cannot be asked: " + std::string(reached.what()),
                         std::string(reached.remedy())});
    return OkStatus();
  }
  if (status.forming()) {
    findings->push_back({Level::kWarning, "network", "here",
                         "the cluster is forming: " + std::to_string(status.nodes_size()) + " of " +
                             std::to_string(status.nodes_expected()) + " nodes have joined",
                         "the logs of the missing daemons say what they wait for"});
  }
  std::vector<Place> daemons = AskDaemons(**channel, status, findings);
  const auto has_rdma = [](const v1::MachineFacts& facts) {
    return std::any_of(facts.ways().begin(), facts.ways().end(),
                       [](const auto& way) { return IsRdmaTransport(way.transport()); });
  };
  MeasurePaths(run, require_rdma || has_rdma(here.facts), status, &daemons, findings);
  for (const Place& place : daemons) {
    JudgeLimits(place, findings);
    JudgeMemory(place, findings);
    JudgeWays(place, require_rdma, findings);
    JudgePath(here, place, require_rdma, findings);
    JudgeClock(place, findings);
    JudgePorts(place, findings);
  }
  JudgeDevices(status, findings);
  daemons.push_back(here);
  JudgeCpus(daemons, findings);
  JudgeVersions(TIDEPOOL_VERSION, daemons, findings);
  return OkStatus();
}

void Print(Invocation& run, const Findings& findings) {
  std::map<Level, std::uint64_t> counts;
  Json list = Json::array();
  for (const Finding& finding : findings) {
    ++counts[finding.level];
    list.push_back({{"level", LevelName(finding.level)},
                    {"topic", finding.topic},
                    {"where", finding.where},
                    {"what", finding.what},
                    {"remedy", finding.remedy.empty() ? Json(nullptr) : Json(finding.remedy)}});
  }
  std::string text;
  for (const GroupedFinding& group : Grouped(findings)) {
    const Finding& finding = *group.first;
    std::string head = LevelName(finding.level);
    head.resize(9, ' ');
    constexpr std::size_t kIndent = 9;
    const std::string places = PlacesText(group.places);
    text += head + Wrap(ForTerminal(finding.topic + ", " + places + ": " + finding.what), kIndent)
                       .substr(kIndent);
    if (!finding.remedy.empty()) text += Wrap("-> " + ForTerminal(finding.remedy), kIndent);
  }
  Json summary;
  text += "\n";
  for (const Level level : {Level::kProblem, Level::kWarning, Level::kNote, Level::kOk}) {
    summary[LevelName(level)] = counts[level];
    text += (level == Level::kProblem ? "" : ", ") + std::to_string(counts[level]) + " " +
            LevelName(level) + (counts[level] == 1 || level == Level::kOk ? "" : "s");
  }
  run.out.Result({{"counts", std::move(summary)}, {"findings", std::move(list)}}, text);
}

Status Doctor(Invocation& run) {
  const std::string& required = run.args.Text("--require");
  if (run.args.Has("--require") && required != "rdma") {
    return Status(StatusCode::kInvalidArgument, "--require cannot be " + Quote(required),
                  "give rdma");
  }
  const bool require_rdma = run.args.Has("--require");
  Findings findings;
  const Place here = ThisProgram();
  JudgeLimits(here, &findings);
  JudgeMemory(here, &findings);
  JudgeWays(here, require_rdma, &findings);
  for (const std::string& directory : run.args.All("--nvm-dir")) {
    const Result<DiskSpeed> speed = MeasureDisk(directory);
    if (speed.ok()) {
      JudgeDisk(directory, *speed, &findings);
    } else {
      findings.push_back({Level::kProblem, "nvm", directory, std::string(speed.status().what()),
                          std::string(speed.status().remedy())});
    }
  }
  if (JudgeClusterFile(run.args.Text("--cluster"), &findings).has_value()) {
    TP_RETURN_IF_ERROR(LookAtCluster(run, require_rdma, here, &findings));
  } else {
    JudgeCpus({here}, &findings);
    JudgeVersions(TIDEPOOL_VERSION, {here}, &findings);
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.level > b.level; });
  Print(run, findings);
  const Finding& worst = findings.front();
  if (worst.level != Level::kProblem) return OkStatus();
  return Status(StatusCode::kFailedPrecondition,
                worst.topic + ", " + worst.where + ": " + worst.what, worst.remedy);
}

}  // namespace

std::vector<Verb> DoctorVerbs() {
  return {
      {"doctor",
       "look for what makes a cluster slow or fail, and say what to do",
       "Of this machine, and of each daemon if there is a cluster: limits, memory and CPUs as "
       "granted, the ways to each node and the one that is used, clocks, the connection file, "
       "containers, versions, open ports. Each finding is a problem, a warning, a note or ok, in "
       "this order; what holds for several nodes is one line. With a problem the exit code is 1. "
       "Changes nothing, but for a file without a name in each "
       "--nvm-dir.",
       {},
       {{"--require", "rdma",
         "whatever does not go by RDMA, to nodes on other machines, is a problem"},
        {"--nvm-dir", "DIR",
         "measure this directory of this machine, with up to 64 MiB: how fast, and whether it is "
         "persistent memory",
         true}},
       {{"kvctl doctor", ""},
        {"kvctl doctor --nvm-dir /local/$USER", "before the first start"},
        {"kvctl doctor --require rdma --json", "for scripts: .result.findings"}},
       Doctor,
       "check diagnose health problems"},
  };
}

}  // namespace tidepool::cli
