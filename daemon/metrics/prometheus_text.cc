#include "daemon/metrics/prometheus_text.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "proto/base/kind.h"
#include "proto/base/latency_buckets.h"
#include "proto/convert/latency_convert.h"

namespace tidepool::daemon {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

double Seconds(std::uint64_t ns) { return static_cast<double>(ns) / 1e9; }

// The families in the order in which they were named first.
class Families {
 public:
  void Counter(const std::string& name, const std::string& help, Labels labels,
               std::uint64_t value) {
    Add(name, help, MetricType::Counter, std::move(labels)).counter.value =
        static_cast<double>(value);
  }
  void Gauge(const std::string& name, const std::string& help, Labels labels, double value) {
    Add(name, help, MetricType::Gauge, std::move(labels)).gauge.value = value;
  }
  void Gauge(const std::string& name, const std::string& help, Labels labels, std::uint64_t value) {
    Gauge(name, help, std::move(labels), static_cast<double>(value));
  }
  void Latency(const std::string& name, const std::string& help, Labels labels,
               const LatencyBuckets& latency) {
    ClientMetric::Histogram& to =
        Add(name, help, MetricType::Histogram, std::move(labels)).histogram;
    for (std::size_t i = 0; i + 1 < LatencyBuckets::kBuckets; ++i) {
      to.sample_count += latency.count(i);
      to.bucket.push_back({to.sample_count, Seconds(LatencyBuckets::BoundNs(i))});
    }
    to.sample_count += latency.count(LatencyBuckets::kBuckets - 1);
    to.sample_sum = Seconds(latency.sum_ns());
  }
  std::string Text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  ClientMetric& Add(const std::string& name, const std::string& help, MetricType type,
                    Labels labels) {
    const auto [found, is_new] = places_.emplace(name, families_.size());
    if (is_new) families_.push_back({"tidepool_" + name, help, type, {}});
    ClientMetric& metric = families_[found->second].metric.emplace_back();
    metric.label = std::move(labels);
    return metric;
  }

  std::map<std::string, std::size_t> places_;
  std::vector<MetricFamily> families_;
};

void AddNode(const v1::NodeStatusResponse& status, const placement::PlacementMap& map,
             const std::string& version, Families* to) {
  to->Gauge("info", "What this daemon is.",
            {{"cluster", map.cluster_uuid},
             {"node", std::to_string(status.node().node_id())},
             {"version", version},
             {"data_path", status.data_path()}},
            1.0);
  to->Gauge("uptime_seconds", "Since the daemon's start.", {},
            static_cast<double>(status.uptime_ms()) / 1000);
  to->Gauge("epoch", "Of the placement map that this node serves by.", {}, status.epoch());
  const placement::NodeState kStates[] = {placement::NodeState::kUp, placement::NodeState::kDown,
                                          placement::NodeState::kLeft};
  for (const placement::NodeState state : kStates) {
    const auto count = std::count_if(map.nodes.begin(), map.nodes.end(),
                                     [state](const auto& node) { return node.state == state; });
    to->Gauge("nodes", "Of the cluster, by this node's map.",
              {{"state", std::string(placement::NodeStateName(state))}},
              static_cast<double>(count));
  }
  to->Gauge("nodes_expected", "Nodes with which the cluster has formed.", {},
            static_cast<double>(map.nodes_expected));
}

void AddMemory(const v1::NodeStatusResponse& status, Families* to) {
  const v1::MemoryStatus& memory = status.memory();
  to->Gauge("memory_limit_bytes", "What --memory allows.", {}, memory.limit_bytes());
  to->Gauge("memory_used_bytes", "Of it: indexes, segments, buffers.", {}, memory.used_bytes());
  to->Gauge("memory_live_bytes", "Of that: records that a get would find.", {},
            memory.live_bytes());
  to->Gauge("memory_index_bytes", "Of that: indexes.", {}, memory.index_bytes());
  to->Gauge("process_resident_bytes", "Resident memory of the daemon.", {}, memory.rss_bytes());
}

void AddDevices(const v1::NodeStatusResponse& status, Families* to) {
  for (int i = 0; i < status.devices_size(); ++i) {
    const v1::DeviceStatus& device = status.devices(i);
    const Labels labels = {{"device", std::to_string(i)},
                           {"medium", device.medium()},
                           {"description", device.description()}};
    to->Gauge("device_bytes", "Reserved in a directory of --nvm-dir.", labels, device.bytes());
    to->Gauge("device_used_bytes", "Of it: segments in use.", labels, device.used_bytes());
  }
  const v1::SpillStatus& spill = status.spill();
  to->Gauge("spilled_live_bytes", "On devices: records that a get would find.", {},
            spill.live_bytes());
  to->Counter("spill_reads_total", "Reads of devices for operations.", {}, spill.reads());
  to->Counter("spill_read_bytes_total", "Read from devices, also to be compacted.", {},
              spill.read_bytes());
  to->Counter("spill_written_bytes_total", "Written to devices when memory was short.", {},
              spill.written_bytes());
  to->Counter("spill_failed_reads_total", "By the device, or by the checksum.", {},
              spill.failed_reads());
  to->Counter("spill_failed_writes_total", "After one, nothing more leaves memory.", {},
              spill.failed_writes());
  to->Counter("durable_written_bytes_total", "Segments and commits of durable namespaces.", {},
              spill.durable_written_bytes());
  to->Counter("device_record_bytes_total",
              "Of records that left memory or became durable, each once: what was written by this "
              "is the write amplification.",
              {}, spill.record_bytes());
  to->Gauge(
      "last_durable_at_seconds",
      "Wall time of the oldest core's checkpoint: what was changed before is durable. 0: none.", {},
      static_cast<double>(status.last_durable_at_ms()) / 1000);
  to->Gauge("devices_failed", "1: nothing becomes durable any more.", {},
            status.devices_failed() ? 1.0 : 0.0);
}

void AddCoreCounters(const v1::CoreStatus& core, const Labels& labels, Families* to) {
  to->Counter("core_operations_total",
              "Of users, on this core: direct reads included, operations of tools left out.",
              labels, core.operations());
  to->Counter("core_direct_reads_total",
              "Of the operations: reads that clients made in the core's memory by themselves.",
              labels, core.direct_reads());
  to->Counter("core_frames_total", "That have come to this core.", labels, core.frames());
  to->Counter("core_malformed_frames_total", "From nobody it knows: dropped.", labels,
              core.malformed_frames());
  to->Counter("core_loops_total", "Of its poll loop.", labels, core.loops());
  to->Counter("core_sleeps_total", "Times that it had nothing to do.", labels, core.sleeps());
  to->Counter("core_refused_for_memory_total", "Changes for which there was no memory.", labels,
              core.refused_for_memory());
  to->Counter("core_expired_records_total", "Removed at the end of their time.", labels,
              core.expired_records());
  to->Counter("core_compacted_segments_total", "In memory and on devices.", labels,
              core.compacted_segments());
  to->Counter("core_slow_total", "Frames and operations that took longer than --slowlog-us.",
              labels, core.slow());
}

void AddCores(const v1::NodeStatusResponse& status, Families* to) {
  for (const v1::CoreStatus& core : status.cores()) {
    const Labels labels = {{"core", std::to_string(core.core())}};
    to->Gauge("core_up", "0: it did not answer within a second.", labels,
              core.silent() ? 0.0 : 1.0);
    if (core.silent()) continue;
    AddCoreCounters(core, labels, to);
    to->Gauge("core_sessions", "Clients with a session.", labels, core.sessions());
    to->Gauge("core_partitions", "That it owns.", labels, core.partitions());
    to->Gauge("core_ring_bytes", "Shared memory of this machine's connections.", labels,
              core.ring_bytes());
    to->Gauge("core_reply_cache_bytes", "For clients that may ask again.", labels,
              core.reply_cache_bytes());
    to->Gauge("core_credit_operations", "Credit that its sessions have been granted.", labels,
              core.credit_operations());
    to->Gauge("core_credit_operations_held", "Of it: taken by operations that wait here.", labels,
              core.credit_operations_held());
    to->Gauge("core_credit_bytes", "Credit in bytes that its sessions have been granted.", labels,
              core.credit_bytes());
    const std::pair<const char*, std::uint64_t> waiting[] = {
        {"map", core.map_waiters()},
        {"store", core.io_waiters()},
        {"change", core.event_waiters()},
        {"commit", core.replies_awaiting_commit()}};
    for (const auto& [what, count] : waiting) {
      to->Gauge(
          "core_waiting",
          "What waits: groups for a newer map or the end of a move, operations for a device or "
          "memory, operations for an item, room or a change, answers for a commit.",
          {{"core", std::to_string(core.core())}, {"for", what}}, count);
    }
  }
}

void AddCounted(const v1::NamespaceStatus& space, const Labels& labels, Families* to) {
  for (const v1::OperationCount& each : space.operations()) {
    Labels with_operation = labels;
    with_operation.push_back({"operation", each.operation()});
    to->Counter("operations_total",
                "Of users, on this node: direct reads included, operations of tools left out.",
                std::move(with_operation), each.count());
  }
  if (!space.has_frames()) return;
  to->Counter("reads_total", "Of the operations: those that answer what records hold.", labels,
              space.reads());
  to->Counter("device_reads_total", "Of the reads: those that waited for a device.", labels,
              space.device_reads());
  to->Counter("direct_reads_total",
              "Of the operations: reads that clients made by themselves, in memory that they share "
              "with a daemon or by RDMA.",
              labels, space.direct_reads());
  to->Counter("changes_total", "Of the operations: those that change something.", labels,
              space.changes());
  to->Latency("frame_seconds", "Frames: received to answer posted, or durable and posted.", labels,
              convert::FromProto(space.frames()));
  to->Latency("store_wait_seconds",
              "Operations that waited for a device or for memory: received to answer posted.",
              labels, convert::FromProto(space.waits()));
}

void AddNamespaces(const v1::NodeStatusResponse& status, Families* to) {
  const bool all_answered = std::none_of(status.cores().begin(), status.cores().end(),
                                         [](const auto& core) { return core.silent(); });
  if (!all_answered) return;
  for (const v1::NamespaceStatus& space : status.namespaces()) {
    if (space.name().empty()) continue;  // It was dropped, and its partitions go just now.
    const auto kind = static_cast<Kind>(space.kind());
    const Labels labels = {{"namespace", space.name()}, {"kind", std::string(KindName(kind))}};
    to->Gauge("records", "On this node, with what staging keeps for itself.", labels,
              space.records());
    to->Gauge("record_bytes", "Of their keys and values.", labels, space.live_bytes());
    if (kind == Kind::kQueue || kind == Kind::kPriority) {
      to->Gauge("queue_items", "Ready and leased items: the depth of the queue.", labels,
                space.records());
    }
    const bool in_memory = status.devices().empty();
    if (in_memory || space.has_residence()) {
      const v1::Residence& where = space.residence();
      const auto add = [&](const char* medium, std::uint64_t bytes) {
        Labels with_medium = labels;
        with_medium.push_back({"medium", medium});
        to->Gauge("resident_bytes",
                  "Of keys and values, where they are; with devices some seconds ago, by a sample.",
                  std::move(with_medium), bytes);
      };
      add("dram", in_memory ? space.live_bytes() : where.memory_bytes());
      add("nvm", in_memory ? 0 : where.device_bytes());
    }
    AddCounted(space, labels, to);
  }
}

}  // namespace

std::string PrometheusText(const v1::NodeStatusResponse& status, const placement::PlacementMap& map,
                           const std::string& version) {
  Families families;
  AddNode(status, map, version, &families);
  AddMemory(status, &families);
  if (!status.devices().empty()) AddDevices(status, &families);
  AddCores(status, &families);
  AddNamespaces(status, &families);
  return families.Text();
}

}  // namespace tidepool::daemon
