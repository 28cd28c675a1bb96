#include "cli/commands/cluster/cluster.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/commands/cluster/device_use.h"
#include "cli/commands/cluster/status_rates.h"
#include "cli/commands/data/record_call.h"
#include "cli/text.h"
#include "proto/base/kind.h"
#include "proto/cluster_file/host_name.h"
#include "proto/machine/page_address.h"
#include "tidepool/v1/admin.grpc.pb.h"
#include "tidepool/v1/cluster.grpc.pb.h"
#include "tidepool/v1/data.grpc.pb.h"

namespace tidepool::cli {
namespace {

const char* StateName(v1::NodeState state) {
  switch (state) {
    case v1::NODE_STATE_UP:
      return "up";
    case v1::NODE_STATE_DOWN:
      return "down";
    case v1::NODE_STATE_LEFT:
      return "left";
    default:
      return "unknown";
  }
}

std::string OrVolatile(const std::string& durability) {
  return durability.empty() ? "volatile" : durability;
}

// Totals of a node's cores: sums, and the worst of the latencies.
struct NodeTotals {
  std::uint64_t records = 0;
  std::uint64_t operations = 0;
  std::uint64_t sessions = 0;
  std::uint64_t p99_ns = 0;
};

NodeTotals TotalsOf(const v1::NodeStatusResponse& status) {
  NodeTotals totals;
  for (const v1::CoreStatus& core : status.cores()) {
    totals.records += core.records();
    totals.operations += core.operations();
    totals.sessions = std::max(totals.sessions, core.sessions());
    totals.p99_ns = std::max(totals.p99_ns, core.p99_ns());
  }
  return totals;
}

// The coordinator itself may be gone, and no other node then calls it down.
bool IsSilent(const v1::StatusResponse::NodeEntry& entry) {
  return entry.node().state() == v1::NODE_STATE_UP && !entry.has_status();
}

std::string StateOf(const v1::StatusResponse::NodeEntry& entry) {
  return IsSilent(entry) ? "silent" : StateName(entry.node().state());
}

std::uint64_t WrittenBytes(const v1::NodeStatusResponse& status) {
  return status.spill().written_bytes() + status.spill().durable_written_bytes();
}

Json ToJson(const v1::StatusResponse::NodeEntry& entry) {
  const v1::Node& node = entry.node();
  Json json;
  json["node_id"] = node.node_id();
  json["state"] = StateOf(entry);
  json["host"] = node.host();
  json["control_address"] = node.control_address();
  json["pid"] = node.pid();
  json["uuid"] = node.uuid();
  json["incarnation"] = node.incarnation();
  json["version"] = node.version();
  json["cores"] = node.cores();
  json["error"] = entry.error().empty() ? Json(nullptr) : Json(entry.error());
  if (!entry.has_status()) return json;
  const v1::NodeStatusResponse& status = entry.status();
  const NodeTotals totals = TotalsOf(status);
  json["uptime_ms"] = status.uptime_ms();
  json["data_path"] = status.data_path();
  json["metrics_url"] = status.metrics_url().empty() ? Json(nullptr) : Json(status.metrics_url());
  const std::string tunnel =
      machine::TunnelCommand(status.metrics_url(), node.host(),
                             machine::LoginHostOf(node.host(), cluster_file::HostName()));
  json["metrics_tunnel"] = tunnel.empty() ? Json(nullptr) : Json(tunnel);
  json["records"] = totals.records;
  json["operations"] = totals.operations;
  json["sessions"] = totals.sessions;
  json["memory"] = {{"limit_bytes", status.memory().limit_bytes()},
                    {"used_bytes", status.memory().used_bytes()},
                    {"live_bytes", status.memory().live_bytes()},
                    {"index_bytes", status.memory().index_bytes()},
                    {"rss_bytes", status.memory().rss_bytes()}};
  Json devices = Json::array();
  for (const v1::DeviceStatus& device : status.devices()) {
    devices.push_back({{"medium", device.medium()},
                       {"description", device.description()},
                       {"bytes", device.bytes()},
                       {"used_bytes", device.used_bytes()}});
  }
  json["devices"] = std::move(devices);
  if (status.has_spill()) {
    json["spill"] = {{"reads", status.spill().reads()},
                     {"read_bytes", status.spill().read_bytes()},
                     {"written_bytes", status.spill().written_bytes()},
                     {"failed_reads", status.spill().failed_reads()},
                     {"failed_writes", status.spill().failed_writes()},
                     {"live_bytes", status.spill().live_bytes()},
                     {"durable_written_bytes", status.spill().durable_written_bytes()},
                     {"record_bytes", status.spill().record_bytes()},
                     {"write_amplification",
                      WriteAmplification(WrittenBytes(status), status.spill().record_bytes())}};
  }
  if (status.devices_size() > 0) {
    json["last_durable_at_ms"] =
        status.last_durable_at_ms() == 0 ? Json(nullptr) : Json(status.last_durable_at_ms());
    json["devices_failed"] = status.devices_failed();
  }
  if (status.has_recovery()) {
    const v1::RecoveryStatus& recovery = status.recovery();
    json["recovery"] = {
        {"partitions", recovery.partitions()},   {"partitions_lost", recovery.partitions_lost()},
        {"records", recovery.records()},         {"bytes_read", recovery.bytes_read()},
        {"duration_ms", recovery.duration_ms()}, {"durable_at_ms", recovery.durable_at_ms()}};
  }
  Json cores = Json::array();
  for (const v1::CoreStatus& core : status.cores()) {
    cores.push_back({{"core", core.core()},
                     {"sessions", core.sessions()},
                     {"partitions", core.partitions()},
                     {"records", core.records()},
                     {"operations", core.operations()},
                     {"direct_reads", core.direct_reads()},
                     {"frames", core.frames()},
                     {"loops", core.loops()},
                     {"sleeps", core.sleeps()},
                     {"p50_ns", core.p50_ns()},
                     {"p99_ns", core.p99_ns()},
                     {"ring_bytes", core.ring_bytes()},
                     {"ring_bytes_max", core.ring_bytes_max()},
                     {"silent", core.silent()},
                     {"slow", core.slow()},
                     {"credit_operations", core.credit_operations()},
                     {"credit_operations_held", core.credit_operations_held()},
                     {"waiting",
                      {{"map", core.map_waiters()},
                       {"store", core.io_waiters()},
                       {"change", core.event_waiters()},
                       {"commit", core.replies_awaiting_commit()}}}});
  }
  json["core_list"] = std::move(cores);
  return json;
}

void AddRow(const v1::StatusResponse::NodeEntry& entry, Table* table) {
  const v1::Node& node = entry.node();
  std::vector<std::string> row = {std::to_string(node.node_id()), StateOf(entry),
                                  node.host() + " " + node.control_address(),
                                  std::to_string(node.pid()), std::to_string(node.cores())};
  if (entry.has_status()) {
    const v1::NodeStatusResponse& status = entry.status();
    const NodeTotals totals = TotalsOf(status);
    row.insert(row.end(), {FormatBytes(status.memory().used_bytes()) + " of " +
                               FormatBytes(status.memory().limit_bytes()),
                           FormatCount(static_cast<double>(totals.records)),
                           FormatCount(static_cast<double>(totals.operations)),
                           FormatNs(totals.p99_ns), FormatDurationMs(status.uptime_ms())});
  } else {
    row.insert(row.end(), {"-", "-", "-", "-", "-"});
  }
  table->Add(std::move(row));
}

// "" if no node has a device.
std::string DevicesText(const v1::StatusResponse& status) {
  Table devices({"NODE", "MEDIUM", "USED", "READ", "WRITTEN", "AMPLIFIED", "DEVICE"});
  bool any = false;
  for (const auto& entry : status.nodes()) {
    const v1::SpillStatus& spill = entry.status().spill();  // Spill of all devices of the node.
    std::string read = FormatBytes(spill.read_bytes());
    std::string written = FormatBytes(WrittenBytes(entry.status()));
    std::string amplified =
        WriteAmplificationText(WrittenBytes(entry.status()), spill.record_bytes());
    for (const v1::DeviceStatus& device : entry.status().devices()) {
      any = true;
      devices.Add({std::to_string(entry.node().node_id()), device.medium(),
                   FormatBytes(device.used_bytes()) + " of " + FormatBytes(device.bytes()),
                   std::exchange(read, ""), std::exchange(written, ""),
                   std::exchange(amplified, ""), device.description()});
    }
  }
  return any ? devices.ToString() + "\n" : "";
}

// Returns a line for each node that has read data back or has failed devices.
std::string DurabilityText(const v1::StatusResponse& status) {
  std::string text;
  for (const auto& entry : status.nodes()) {
    const std::string node = "node " + std::to_string(entry.node().node_id());
    const v1::RecoveryStatus& recovery = entry.status().recovery();
    if (entry.status().has_recovery()) {
      text += node + " has read back " + std::to_string(recovery.records()) + " records of " +
              std::to_string(recovery.partitions()) + " durable partitions in " +
              FormatDurationMs(recovery.duration_ms());
      if (recovery.partitions_lost() > 0) {
        text += "; " + std::to_string(recovery.partitions_lost()) + " partitions are lost";
      }
      text += "\n";
    }
    if (entry.status().devices_failed()) {
      text += node + ": a device has failed, nothing becomes durable any more\n";
    }
  }
  return text.empty() ? text : text + "\n";
}

// Why nodes that should have answered did not.
std::string SilenceText(const v1::StatusResponse& status) {
  std::string text;
  for (const auto& entry : status.nodes()) {
    if (IsSilent(entry)) text += "silent: " + entry.error() + "\n";
  }
  return text.empty() ? text : text + "\n";
}

// Returns the coordinator, and problems with it or with the store of the state.
std::string StoreText(const v1::StatusResponse& status) {
  const bool is_known = status.coordinator() < static_cast<std::uint32_t>(status.nodes_size());
  std::string text =
      "coordinator " + (is_known ? "node " + std::to_string(status.coordinator()) : "none") +
      ", its state " +
      (status.store() == "embedded" ? "in its data folder" : "in " + status.store()) + "\n";
  if (!status.store_error().empty()) {
    text += "nothing can be created, dropped or joined: " + status.store_error() + "\n";
  }
  return text;
}

std::string StateOf(const v1::StatusResponse::NamespaceEntry& space) {
  std::string state;
  const auto add = [&state](std::uint32_t partitions, const char* what) {
    if (partitions == 0) return;
    state += (state.empty() ? "" : ", ") + std::to_string(partitions) + " " + what;
  };
  add(space.partitions_down(), "down");
  add(space.partitions_lost(), "lost");
  add(space.partitions_silent(), "silent");
  if (state.empty()) state = "ok";
  if (space.copies_missing() > 0) {
    add(space.copies_missing(), space.copies_missing() == 1 ? "copy missing" : "copies missing");
  }
  return state;
}

// Where the nodes' metrics and pages are.
std::string PagesText(const v1::StatusResponse& status) {
  std::string text;
  for (const auto& entry : status.nodes()) {
    if (entry.status().metrics_url().empty()) continue;
    const std::string& host = entry.node().host();
    text += "metrics and status page of node " + std::to_string(entry.node().node_id()) + ": " +
            machine::PageText(entry.status().metrics_url(), host,
                              machine::LoginHostOf(host, cluster_file::HostName())) +
            "\n";
  }
  return text.empty() ? text : "\n" + text;
}

std::string ForPeople(const v1::StatusResponse& status, const std::string& file) {
  std::size_t up = 0;
  Table nodes({"NODE", "STATE", "ADDRESS", "PID", "CORES", "MEMORY", "STORED", "OPERATIONS", "P99",
               "UP FOR"});
  for (const auto& entry : status.nodes()) {
    up += StateOf(entry) == "up" ? 1 : 0;
    AddRow(entry, &nodes);
  }
  Table spaces({"NAMESPACE", "KIND", "RECORDS", "BYTES", "IN NVM", "READS", "CHANGES", "P99",
                "PARTITIONS", "DURABILITY", "STATE"});
  ClusterRates totals = TotalsSinceStart(status);
  auto resident = ResidentBySpace(status);
  for (const auto& space : status.namespaces()) {
    const SpaceRates& of = totals.spaces[space.namespace_id()];
    spaces.Add({space.name(), std::string(KindName(static_cast<Kind>(space.kind()))),
                std::to_string(space.records()), FormatBytes(space.live_bytes()),
                FormatBytes(resident[space.namespace_id()].device_bytes), FormatCount(of.reads),
                FormatCount(of.changes),
                of.frames.count() == 0 ? "-" : FormatNs(of.frames.QuantileNs(0.99)),
                std::to_string(space.partitions()), OrVolatile(space.durability()),
                StateOf(space)});
  }
  return "cluster " + status.cluster_uuid() + ", " + std::to_string(up) + " of " +
         std::to_string(status.nodes_expected()) + " nodes up" +
         (status.forming() ? " (forming)" : "") + ", epoch " + std::to_string(status.epoch()) +
         "\nconnection file " + file + "\n" + StoreText(status) + "\n" + nodes.ToString() + "\n" +
         SilenceText(status) + DevicesText(status) + DurabilityText(status) + spaces.ToString() +
         PagesText(status);
}

// The numbers of the nodes that are up.
std::vector<std::uint32_t> UpNodes(const v1::StatusResponse& status) {
  std::vector<std::uint32_t> nodes;
  for (const auto& entry : status.nodes()) {
    if (entry.node().state() == v1::NODE_STATE_UP) nodes.push_back(entry.node().node_id());
  }
  return nodes;
}

std::string NamesOf(const std::vector<std::uint32_t>& nodes) {
  std::string text;
  for (const std::uint32_t node : nodes) text += std::to_string(node) + "\n";
  return text;
}

Status ShowStatus(Invocation& run) {
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  v1::StatusResponse status;
  TP_RETURN_IF_ERROR((*channel)->Call<v1::Cluster>(&v1::Cluster::Stub::Status, {}, &status));
  const std::string& file = (*channel)->found().path;
  if (run.args.Has("--names")) {
    run.out.Result({{"nodes", UpNodes(status)}}, NamesOf(UpNodes(status)));
    return OkStatus();
  }
  if (!run.out.json()) {
    run.out.Result({}, ForPeople(status, file));
    return OkStatus();
  }
  Json nodes = Json::array();
  for (const auto& entry : status.nodes()) nodes.push_back(ToJson(entry));
  Json spaces = Json::array();
  ClusterRates totals = TotalsSinceStart(status);
  auto resident = ResidentBySpace(status);
  for (const auto& space : status.namespaces()) {
    const SpaceRates& of = totals.spaces[space.namespace_id()];
    spaces.push_back({{"name", space.name()},
                      {"kind", KindName(static_cast<Kind>(space.kind()))},
                      {"records", space.records()},
                      {"internal_records", space.internal_records()},
                      {"live_bytes", space.live_bytes()},
                      {"memory_bytes", resident[space.namespace_id()].memory_bytes},
                      {"device_bytes", resident[space.namespace_id()].device_bytes},
                      {"reads", static_cast<std::uint64_t>(of.reads)},
                      {"device_reads", static_cast<std::uint64_t>(of.device_reads)},
                      {"direct_reads", static_cast<std::uint64_t>(of.direct_reads)},
                      {"changes", static_cast<std::uint64_t>(of.changes)},
                      {"p50_ns", of.frames.QuantileNs(0.5)},
                      {"p99_ns", of.frames.QuantileNs(0.99)},
                      {"partitions", space.partitions()},
                      {"partitions_down", space.partitions_down()},
                      {"partitions_lost", space.partitions_lost()},
                      {"partitions_silent", space.partitions_silent()},
                      {"copies_missing", space.copies_missing()},
                      {"durability", OrVolatile(space.durability())}});
  }
  run.out.Result({{"cluster_uuid", status.cluster_uuid()},
                  {"cluster_file", file},
                  {"epoch", status.epoch()},
                  {"nodes_expected", status.nodes_expected()},
                  {"forming", status.forming()},
                  {"coordinator", status.coordinator()},
                  {"store", status.store()},
                  {"store_error", status.store_error()},
                  {"nodes", std::move(nodes)},
                  {"namespaces", std::move(spaces)}},
                 "");
  return OkStatus();
}

Status Locate(Invocation& run) {
  v1::LocateRequest request;
  Result<std::string> key = KeyArgument(run.args);
  if (!key.ok()) return key.status();
  request.set_namespace_(run.args.Text("NAMESPACE"));
  request.set_key(*key);
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  v1::LocateResponse place;
  TP_RETURN_IF_ERROR((*channel)->Call<v1::Data>(&v1::Data::Stub::Locate, request, &place));
  Json result;
  SetBytes(&result, "key", *key);
  result["partition"] = place.partition();
  result["node_id"] = place.node_id();
  result["core"] = place.core();
  result["term"] = place.term();
  result["host"] = place.host();
  result["control_address"] = place.control_address();
  result["node_state"] = place.node_state();
  if (place.has_range_end() || !place.range_begin().empty()) {
    SetBytes(&result, "range_begin", place.range_begin());
    if (place.has_range_end()) SetBytes(&result, "range_end", place.range_end());
  }
  Table table({"PARTITION", "NODE", "CORE", "TERM", "HOST", "ADDRESS", "STATE"});
  table.Add({std::to_string(place.partition()), std::to_string(place.node_id()),
             std::to_string(place.core()), std::to_string(place.term()), place.host(),
             place.control_address(), place.node_state()});
  run.out.Result(result, table.ToString());
  return OkStatus();
}

Status Config(Invocation& run) {
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  v1::GetConfigResponse config;
  TP_RETURN_IF_ERROR((*channel)->Call<v1::Admin>(&v1::Admin::Stub::GetConfig, {}, &config));
  Json options = Json::array();
  Table table({"OPTION", "VALUE", "FROM", "WHAT IT IS"});
  for (const auto& option : config.options()) {
    options.push_back({{"name", option.name()},
                       {"value", option.value()},
                       {"source", option.source()},
                       {"help", option.help()}});
    table.Add({option.name(), option.value().empty() ? "-" : option.value(), option.source(),
               option.help()});
  }
  run.out.Result({{"node", (*channel)->address()}, {"options", std::move(options)}},
                 table.ToString());
  return OkStatus();
}

}  // namespace

std::vector<Verb> ClusterVerbs() {
  return {
      {"status",
       "show nodes, memory and namespaces",
       "STORED is what a node holds, with what staging keeps for itself; a namespace's RECORDS are "
       "without that, as count has them. P99 of a node is the time from frame received to answer "
       "posted, in its slowest core. READS, CHANGES and P99 of a namespace are since the daemons' "
       "starts, without what clients read by themselves. At the end stands where each node has its "
       "metrics, for Prometheus at /metrics, and its status page, with the ssh line that leads "
       "there "
       "from another machine, as a laptop.",
       {},
       {{"--names", "", "only the numbers of the nodes that are up, one a line"}},
       {{"kvctl status", ""}, {"kvctl status --json", "all counters, of each core"}},
       ShowStatus,
       "info stats nodes"},
      {"locate",
       "show where a key lives, whether or not it exists",
       "",
       {NamespaceParameter(), KeyParameter()},
       {Base64Option()},
       {{"kvctl locate default greeting", ""}},
       Locate,
       "where owner"},
      {"config",
       "show a daemon's options and where they came from",
       "Of the first node of the connection file that answers.",
       {},
       {},
       {{"kvctl config", ""}},
       Config,
       "options settings"},
  };
}

}  // namespace tidepool::cli
