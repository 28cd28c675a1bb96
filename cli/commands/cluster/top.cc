#include "cli/commands/cluster/top.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "cli/commands/cluster/status_rates.h"
#include "cli/invocation.h"
#include "cli/text.h"
#include "proto/base/kind.h"
#include "tidepool/v1/cluster.grpc.pb.h"

namespace tidepool::cli {
namespace {

constexpr std::uint64_t kIntervalMsMin = 100;
constexpr std::uint64_t kIntervalMsMax = 3'600'000;
// Moves the cursor to the top left. Text below the last line is cleared.
constexpr std::string_view kHome = "\x1b[H";
constexpr std::string_view kClearLine = "\x1b[K\n";
constexpr std::string_view kClearBelow = "\x1b[J";

std::string HitsText(const std::optional<double>& share) {
  return share.has_value() ? FormatPercent(*share) : "-";
}

std::string LatencyText(const LatencyBuckets& latency, double quantile) {
  return latency.count() == 0 ? "-" : FormatNs(latency.QuantileNs(quantile));
}

std::string UsedText(std::uint64_t used, std::uint64_t of) {
  return of == 0 ? "-" : FormatBytes(used) + " of " + FormatBytes(of);
}

std::uint64_t DeviceBytes(const v1::NodeStatusResponse& status, bool used) {
  std::uint64_t bytes = 0;
  for (const v1::DeviceStatus& device : status.devices()) {
    bytes += used ? device.used_bytes() : device.bytes();
  }
  return bytes;
}

std::string NodesText(const v1::StatusResponse& status, const ClusterRates& rates) {
  Table nodes({"NODE", "HOST", "OPERATIONS/S", "SESSIONS", "WAITING", "MEMORY", "NVM"});
  for (const auto& entry : status.nodes()) {
    const v1::Node& node = entry.node();
    if (!entry.has_status()) {
      nodes.Add({std::to_string(node.node_id()), node.host() + " (does not answer)", "-", "-", "-",
                 "-", "-"});
      continue;
    }
    const v1::NodeStatusResponse& of = entry.status();
    std::uint64_t sessions = 0;
    for (const v1::CoreStatus& core : of.cores()) sessions = std::max(sessions, core.sessions());
    const auto rate = rates.operations.find(node.node_id());
    nodes.Add({std::to_string(node.node_id()), node.host(),
               rate == rates.operations.end() ? "-" : FormatCount(rate->second),
               std::to_string(sessions), std::to_string(WaitingOn(of)),
               UsedText(of.memory().used_bytes(), of.memory().limit_bytes()),
               UsedText(DeviceBytes(of, true), DeviceBytes(of, false))});
  }
  return nodes.ToString();
}

std::string SpacesText(const v1::StatusResponse& status, const ClusterRates& rates) {
  Table spaces({"NAMESPACE", "KIND", "READS/S", "CHANGES/S", "HITS", "P50", "P99", "RECORDS",
                "IN MEMORY", "IN NVM"});
  const auto resident = ResidentBySpace(status);
  for (const auto& space : status.namespaces()) {
    const auto rate = rates.spaces.find(space.namespace_id());
    const SpaceRates of = rate == rates.spaces.end() ? SpaceRates() : rate->second;
    const auto where = resident.find(space.namespace_id());
    const Resident bytes = where == resident.end() ? Resident() : where->second;
    spaces.Add({space.name(), std::string(KindName(static_cast<Kind>(space.kind()))),
                FormatCount(of.reads), FormatCount(of.changes), HitsText(of.HitShare()),
                LatencyText(of.frames, 0.5), LatencyText(of.frames, 0.99),
                FormatCount(static_cast<double>(space.records())), FormatBytes(bytes.memory_bytes),
                FormatBytes(bytes.device_bytes)});
  }
  return spaces.ToString();
}

std::string ForPeople(const v1::StatusResponse& status, const ClusterRates& rates) {
  const auto up = std::count_if(status.nodes().begin(), status.nodes().end(),
                                [](const auto& entry) { return entry.has_status(); });
  return "cluster " + status.cluster_uuid() + ", " + std::to_string(up) + " of " +
         std::to_string(status.nodes_expected()) + " nodes answer, epoch " +
         std::to_string(status.epoch()) + "\n" + FormatCount(rates.all_operations) +
         " operations/s, " + FormatCount(rates.all.reads) + " reads/s, " +
         FormatCount(rates.all.changes) + " changes/s, hits " + HitsText(rates.all.HitShare()) +
         ", p50 " + LatencyText(rates.all.frames, 0.5) + ", p99 " +
         LatencyText(rates.all.frames, 0.99) + "\n\n" + NodesText(status, rates) + "\n" +
         SpacesText(status, rates);
}

Json RatesJson(const SpaceRates& rates) {
  const std::optional<double> hits = rates.HitShare();
  const bool any = rates.frames.count() > 0;
  return {{"reads_per_second", rates.reads},
          {"changes_per_second", rates.changes},
          {"hit_rate", hits.has_value() ? Json(*hits) : Json(nullptr)},
          {"frames", rates.frames.count()},
          {"p50_ns", any ? Json(rates.frames.QuantileNs(0.5)) : Json(nullptr)},
          {"p99_ns", any ? Json(rates.frames.QuantileNs(0.99)) : Json(nullptr)}};
}

Json ForScripts(const v1::StatusResponse& status, const ClusterRates& rates) {
  Json item = RatesJson(rates.all);
  item["operations_per_second"] = rates.all_operations;
  Json nodes = Json::array();
  for (const auto& entry : status.nodes()) {
    const auto rate = rates.operations.find(entry.node().node_id());
    const bool known = rate != rates.operations.end();
    nodes.push_back({{"node_id", entry.node().node_id()},
                     {"answers", entry.has_status()},
                     {"operations_per_second", known ? Json(rate->second) : Json(nullptr)},
                     {"waiting", WaitingOn(entry.status())},
                     {"memory_used_bytes", entry.status().memory().used_bytes()},
                     {"device_used_bytes", DeviceBytes(entry.status(), true)}});
  }
  item["nodes"] = std::move(nodes);
  Json spaces = Json::array();
  const auto resident = ResidentBySpace(status);
  for (const auto& space : status.namespaces()) {
    const auto rate = rates.spaces.find(space.namespace_id());
    Json json = RatesJson(rate == rates.spaces.end() ? SpaceRates() : rate->second);
    json["name"] = space.name();
    json["records"] = space.records();
    if (const auto where = resident.find(space.namespace_id()); where != resident.end()) {
      json["memory_bytes"] = where->second.memory_bytes;
      json["device_bytes"] = where->second.device_bytes;
    }
    spaces.push_back(std::move(json));
  }
  item["namespaces"] = std::move(spaces);
  return item;
}

// On a terminal a picture is drawn over the last picture, without flicker. Otherwise pictures
// follow each other.
void Show(Invocation& run, const std::string& picture, bool is_first) {
  if (!run.out.stdout_is_terminal()) return run.out.Raw((is_first ? "" : "\n") + picture);
  std::string drawn = is_first ? "\x1b[2J" + std::string(kHome) : std::string(kHome);
  for (const char c : picture) {
    if (c == '\n') {
      drawn += kClearLine;
    } else {
      drawn += c;
    }
  }
  run.out.Raw(drawn + std::string(kClearBelow));
}

Status Top(Invocation& run) {
  constexpr std::uint64_t kEndless = std::numeric_limits<std::uint64_t>::max();
  const Result<std::uint64_t> count = run.args.Number("--count", kEndless);
  if (!count.ok()) return count.status();
  const Result<std::uint64_t> interval_ms = run.args.DurationMs("--interval", 1000);
  if (!interval_ms.ok()) return interval_ms.status();
  if (*count == 0) return Status(StatusCode::kInvalidArgument, "--count: at least one");
  if (*interval_ms < kIntervalMsMin || *interval_ms > kIntervalMsMax) {
    return Status(StatusCode::kInvalidArgument, "--interval goes from 100ms to 1h");
  }
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  const auto look = [&channel](v1::StatusResponse* status) {
    return (*channel)->Call<v1::Cluster>(&v1::Cluster::Stub::Status, {}, status);
  };
  v1::StatusResponse before;
  TP_RETURN_IF_ERROR(look(&before));
  run.out.BeginList("looks");
  for (std::uint64_t i = 0; i < *count; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(*interval_ms));
    v1::StatusResponse now;
    TP_RETURN_IF_ERROR(look(&now));
    const ClusterRates rates = RatesBetween(before, now);
    if (run.out.json()) {
      run.out.Item(ForScripts(now, rates));
    } else {
      Show(run, ForPeople(now, rates), i == 0);
    }
    run.out.Flush();
    before = std::move(now);
  }
  return OkStatus();
}

}  // namespace

std::vector<Verb> TopVerbs() {
  return {
      {"top",
       "show what nodes and namespaces do now, again and again",
       "Rates and latencies are of the time since the last look; latencies are from frame received "
       "to answer posted. HITS are reads that waited for no device. What clients read by "
       "themselves, in memory that they share with a daemon or by RDMA, counts as operations and "
       "reads, and has no latency here. What kvctl does to look after the cluster does not count. "
       "Ends after --count looks, or when it is interrupted.",
       {},
       {{"-i,--interval", "DURATION", "between two looks (default 1s)"},
        {"-c,--count", "N", "end after N looks (default: never)"}},
       {{"kvctl top", ""}, {"kvctl top --interval 10s --count 6 --json", "a minute for a script"}},
       Top,
       "watch-status live monitor rates iostat"},
  };
}

}  // namespace tidepool::cli
