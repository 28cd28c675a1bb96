#include "daemon/services/node_status.h"

#include <grpcpp/completion_queue.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>

#include "daemon/control/persist.h"
#include "daemon/core/residence.h"
#include "daemon/staging/cluster_view.h"
#include "proto/convert/grpc_status.h"
#include "proto/convert/latency_convert.h"
#include "proto/convert/placement_convert.h"
#include "tidepool/v1/cluster.grpc.pb.h"

namespace tidepool::daemon {
namespace {

// Bound on the time to find the places of records, a part of the status.
constexpr std::uint64_t kResidenceMs = 200;

std::uint64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

void AddCores(const std::vector<CoreStats>& cores, v1::NodeStatusResponse* response) {
  v1::MemoryStatus& memory = *response->mutable_memory();
  for (const CoreStats& core : cores) {
    auto* to = response->add_cores();
    to->set_core(static_cast<std::uint32_t>(response->cores_size() - 1));
    to->set_sessions(core.sessions);
    to->set_partitions(core.partitions);
    to->set_operations(core.operations + core.direct_reads);
    to->set_direct_reads(core.direct_reads);
    to->set_frames(core.frames);
    to->set_loops(core.loops);
    to->set_sleeps(core.sleeps);
    to->set_p50_ns(core.p50_ns);
    to->set_p99_ns(core.p99_ns);
    to->set_records(core.records);
    to->set_ring_bytes(core.ring_bytes);
    to->set_ring_bytes_max(core.ring_bytes_max);
    to->set_silent(!core.answered);
    to->set_malformed_frames(core.malformed_frames);
    to->set_refused_for_memory(core.refused_for_memory);
    to->set_expired_records(core.expired_records);
    to->set_compacted_segments(core.compacted_segments);
    to->set_slow(core.slow_frames);
    to->set_credit_operations(core.credit_operations);
    to->set_credit_bytes(core.credit_bytes);
    to->set_credit_operations_held(core.credit_operations_held);
    to->set_reply_cache_bytes(core.reply_cache_bytes);
    to->set_map_waiters(core.map_waiters);
    to->set_io_waiters(core.io_waiters);
    to->set_event_waiters(core.event_waiters);
    to->set_replies_awaiting_commit(core.replies_awaiting_commit);
    if (!core.answered) continue;
    memory.set_limit_bytes(core.limit_bytes);  // Limit of the node, which its cores share.
    memory.set_used_bytes(memory.used_bytes() + core.used_bytes);
    memory.set_live_bytes(memory.live_bytes() + core.live_bytes);
    memory.set_index_bytes(memory.index_bytes() + core.index_bytes);
  }
  memory.set_rss_bytes(ResidentBytes());
}

void AddDevices(const storage::Volume& volume, const std::vector<CoreStats>& cores,
                v1::NodeStatusResponse* response) {
  v1::SpillStatus& spill = *response->mutable_spill();
  for (const CoreStats& core : cores) {
    spill.set_reads(spill.reads() + core.spill.reads);
    spill.set_read_bytes(spill.read_bytes() + core.spill.read_bytes);
    spill.set_written_bytes(spill.written_bytes() + core.spill.written_bytes);
    spill.set_failed_reads(spill.failed_reads() + core.spill.failed_reads);
    spill.set_failed_writes(spill.failed_writes() + core.spill.failed_writes);
    spill.set_live_bytes(spill.live_bytes() + core.spilled_live_bytes);
    spill.set_durable_written_bytes(spill.durable_written_bytes() + core.durable_written_bytes);
    spill.set_record_bytes(spill.record_bytes() + core.spill.record_bytes + core.durable_bytes);
  }
  for (const auto& device : volume.usage().devices) {
    auto* to = response->add_devices();
    to->set_medium(device.medium == storage::DeviceMedium::kDax ? "dax" : "file");
    to->set_description(device.description);
    to->set_bytes(device.bytes);
    to->set_used_bytes(device.used_bytes);
  }
}

void AddDurability(const NodeState& node, Deadline deadline, v1::NodeStatusResponse* response) {
  const NodeDurability now = DurabilityOf(node.cores, deadline);
  response->set_last_durable_at_ms(now.last_durable_at_ms);
  response->set_devices_failed(now.failed);
  if (node.recovery.partitions.empty()) return;
  v1::RecoveryStatus& recovery = *response->mutable_recovery();
  recovery.set_partitions(static_cast<std::uint32_t>(node.recovery.partitions.size()));
  recovery.set_partitions_lost(node.recovery.lost());
  recovery.set_records(node.recovery.records);
  recovery.set_bytes_read(node.recovery.bytes_read);
  recovery.set_duration_ms(node.recovery.duration_ms);
  recovery.set_durable_at_ms(node.recovery.durable_at_ms);
}

void ToProto(const storage::Residence& from, v1::Residence* to) {
  to->set_memory_records(from.memory_records);
  to->set_memory_bytes(from.memory_bytes);
  to->set_device_records(from.device_records);
  to->set_device_bytes(from.device_bytes);
  to->set_cached_records(from.cached_records);
  to->set_sampled(from.sampled);
}

// Counts of a namespace on all cores.
struct Counted {
  std::map<std::string_view, std::uint64_t> operations;
  std::uint64_t reads = 0;
  std::uint64_t device_reads = 0;
  std::uint64_t direct_reads = 0;
  std::uint64_t changes = 0;
  LatencyBuckets frames;
  LatencyBuckets waits;
};

std::map<NamespaceId, Counted> CountedBy(const std::vector<CoreStats>& cores) {
  std::map<NamespaceId, Counted> all;
  for (const CoreStats& core : cores) {
    for (const SpaceStats& space : core.spaces) {
      Counted& sum = all[space.space];
      for (const auto& [opcode, count] : space.operations) {
        sum.operations[wire::InfoOf(opcode).name] += count;
      }
      sum.reads += space.reads;
      sum.device_reads += space.device_reads;
      sum.direct_reads += space.direct_reads;
      sum.changes += space.changes;
      sum.frames.Merge(space.frames);
      sum.waits.Merge(space.waits);
    }
  }
  return all;
}

void AddCounted(const Counted& from, v1::NamespaceStatus* to) {
  for (const auto& [operation, count] : from.operations) {
    auto* entry = to->add_operations();
    entry->set_operation(std::string(operation));
    entry->set_count(count);
  }
  to->set_reads(from.reads);
  to->set_device_reads(from.device_reads);
  to->set_direct_reads(from.direct_reads);
  to->set_changes(from.changes);
  convert::ToProto(from.frames, to->mutable_frames());
  convert::ToProto(from.waits, to->mutable_waits());
}

// Adds namespaces: facts of the map, counts of the cores, and the places of records.
void DescribeNamespaces(NodeState* node, const placement::PlacementMap& map,
                        const std::vector<CoreStats>& cores, Deadline deadline,
                        v1::NodeStatusResponse* response) {
  if (node->volume != nullptr) {
    std::vector<NamespaceId> spaces;
    for (const auto& space : response->namespaces()) {
      if (space.records() > 0) spaces.emplace_back(space.namespace_id());
    }
    const Deadline soon(std::min(deadline.at_ns(), Deadline::AfterMs(kResidenceMs).at_ns()));
    node->residences.Refresh(node->cores, spaces, soon);
  }
  const std::map<NamespaceId, Counted> counted = CountedBy(cores);
  for (v1::NamespaceStatus& to : *response->mutable_namespaces()) {
    const NamespaceId id(to.namespace_id());
    if (const auto space = map.Find(id); space != nullptr) {
      to.set_name(space->name);
      to.set_kind(static_cast<v1::Kind>(space->kind));
    }
    if (const auto found = counted.find(id); found != counted.end()) AddCounted(found->second, &to);
    if (node->volume == nullptr) continue;
    if (const auto where = node->residences.Find(id); where.has_value()) {
      ToProto(*where, to.mutable_residence());
    }
  }
}

void AddNamespaces(const NodeState& node, const std::vector<PartitionStats>& partitions,
                   const std::vector<CoreStats>& cores, NamespaceId partitions_of,
                   v1::NodeStatusResponse* response) {
  struct Sum {
    std::uint64_t records = 0;
    std::uint64_t live_bytes = 0;
    std::uint64_t changes = 0;
  };
  std::map<NamespaceId, Sum> sums;
  // Includes namespaces with partitions that have moved: their counts stay here.
  for (const CoreStats& core : cores) {
    for (const SpaceStats& space : core.spaces) sums[space.space];
  }
  for (const PartitionStats& partition : partitions) {
    Sum& sum = sums[partition.id.space()];
    sum.records += partition.records;
    sum.live_bytes += partition.live_bytes;
    sum.changes += partition.changes;
    if (partition.id.space() != partitions_of) continue;
    auto* to = response->add_partitions();
    to->set_index(partition.id.index());
    to->set_records(partition.records);
    to->set_live_bytes(partition.live_bytes);
  }
  for (const auto& [id, sum] : sums) {
    auto* to = response->add_namespaces();
    to->set_namespace_id(id.value());
    to->set_records(sum.records);
    to->set_live_bytes(sum.live_bytes);
    to->set_saved(sum.records == 0 || node.saved.IsSaved(id, sum.changes));
  }
}

void AddResidence(CoreGroup* cores, NamespaceId space, Deadline deadline,
                  v1::NodeStatusResponse* response) {
  const Deadline soon = Deadline::AfterMs(deadline.LeftMs() / 2);  // The rest is to arrive.
  const auto found = ResidenceOf(cores, space, soon);
  for (v1::PartitionStatus& partition : *response->mutable_partitions()) {
    const auto entry = found.find(partition.index());
    if (entry == found.end()) continue;
    const storage::Residence& where = entry->second.where;
    v1::Residence& to = *partition.mutable_residence();
    ToProto(where, &to);
    to.set_reads(entry->second.reads);
    to.set_device_reads(entry->second.device_reads);
  }
}

// A call in progress.
struct Asked {
  std::size_t node = 0;
  grpc::ClientContext context;
  v1::NodeStatusResponse response;
  grpc::Status status;
};

}  // namespace

v1::NodeStatusResponse LocalNodeStatus(NodeState* node, NamespaceId partitions_of,
                                       Deadline deadline, bool residence) {
  v1::NodeStatusResponse response;
  const placement::PlacementMapPtr map = node->map.Get();
  if (map != nullptr && node->joined()) {
    convert::ToProto(map->nodes[node->self().value()], response.mutable_node());
    response.set_epoch(map->epoch.value());
  }
  const std::vector<CoreStats> cores = node->cores->Stats(deadline);
  AddCores(cores, &response);
  AddNamespaces(*node, node->cores->NamespaceStats(deadline), cores, partitions_of, &response);
  if (map != nullptr) DescribeNamespaces(node, *map, cores, deadline, &response);
  if (node->volume != nullptr) {
    AddDevices(*node->volume, cores, &response);
    AddDurability(*node, deadline, &response);
    if (residence) AddResidence(node->cores, partitions_of, deadline, &response);
  }
  response.set_uptime_ms((Clock::Real().MonotonicNs() - node->started_ns) / 1'000'000);
  response.set_data_path(node->cores->Describe());
  response.set_metrics_url(node->metrics_url);
  response.set_at_ms(Clock::Real().WallMs());
  response.set_at_ns(Clock::Real().MonotonicNs());
  return response;
}

std::vector<Result<v1::NodeStatusResponse>> CollectNodeStatus(NodeState* node,
                                                              const placement::PlacementMap& map,
                                                              NamespaceId partitions_of,
                                                              Deadline deadline, bool residence) {
  const Deadline soon(std::min(deadline.at_ns(), Deadline::AfterMs(kNodeStatusTimeoutMs).at_ns()));
  std::vector<Result<v1::NodeStatusResponse>> results;
  v1::NodeStatusRequest request;
  request.set_partitions_of(partitions_of.value());
  request.set_residence(residence);
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<Asked>> calls;
  for (const placement::Node& each : map.nodes) {
    results.emplace_back(
        Status(StatusCode::kUnavailable,
               NodeText(each) + " is " + std::string(placement::NodeStateName(each.state))));
    if (each.id == node->self() || each.state != placement::NodeState::kUp) continue;
    auto asked = std::make_unique<Asked>();
    asked->node = each.id.value();
    node->peers.Prepare(&asked->context, soon);
    const auto stub = v1::Cluster::NewStub(node->peers.Get(each.control_address));
    auto reader = stub->AsyncNodeStatus(&asked->context, request, &queue);
    reader->Finish(&asked->response, &asked->status, asked.get());
    calls.push_back(std::move(asked));
  }
  results[node->self().value()] = LocalNodeStatus(node, partitions_of, soon, residence);
  for (std::size_t left = calls.size(); left > 0; --left) {
    void* tag = nullptr;
    bool ok = false;
    if (!queue.Next(&tag, &ok)) break;
    auto* asked = static_cast<Asked*>(tag);
    if (asked->status.ok()) {
      results[asked->node] = std::move(asked->response);
    } else {
      results[asked->node] = convert::FromGrpc(asked->status, NodeText(map.nodes[asked->node]));
    }
  }
  queue.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) {
  }
  return results;
}

std::map<NamespaceId, NamespaceTotals> TotalsOf(
    NodeState* node, const placement::PlacementMap& map,
    const std::vector<Result<v1::NodeStatusResponse>>& nodes) {
  std::map<NamespaceId, NamespaceTotals> all;
  // False if a node is not asked or does not answer: the other counts are of the whole namespace.
  bool all_answered = nodes.size() == map.nodes.size();
  bool on_devices = false;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!nodes[i].ok()) {
      all_answered = all_answered && map.nodes[i].state == placement::NodeState::kLeft;
      continue;
    }
    for (const auto& device : nodes[i]->devices()) on_devices |= device.used_bytes() > 0;
    for (const auto& space : nodes[i]->namespaces()) {
      NamespaceTotals& totals = all[NamespaceId(space.namespace_id())];
      totals.records += space.records();
      totals.live_bytes += space.live_bytes();
      totals.saved = totals.saved && space.saved();
    }
  }
  if (!all_answered) return all;
  for (auto& [id, totals] : all) {
    const auto space = map.Find(id);
    if (space == nullptr || totals.records == 0) continue;
    // A walk over devices takes longer than anybody waits for a status: until the job is over all
    // records count.
    const auto internal = staging::InternalRecords(node->router, space, !on_devices);
    if (!internal.ok()) continue;
    totals.internal_records = std::min(totals.records, *internal);
    totals.records -= totals.internal_records;
  }
  return all;
}

}  // namespace tidepool::daemon
