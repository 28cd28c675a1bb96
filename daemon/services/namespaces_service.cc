#include "daemon/services/namespaces_service.h"

#include <algorithm>
#include <map>

#include "daemon/membership/namespace_rules.h"
#include "daemon/routing/call_deadline.h"
#include "daemon/routing/forwarded_call.h"
#include "daemon/routing/request_router.h"
#include "daemon/services/node_status.h"
#include "proto/convert/grpc_status.h"
#include "proto/convert/placement_convert.h"
#include "proto/wire/bloom_ops.h"
#include "proto/wire/prefilter_ops.h"
#include "storage/core_store.h"

namespace tidepool::daemon {
namespace {

using convert::ToGrpc;

constexpr std::uint64_t kInstallWaitMs = 1000;

// A bloom partition's filter in the words of a prefilter.
Result<wire::PrefilterSummary> SummaryOf(bool is_bloom, Bytes described) {
  if (!is_bloom) return wire::LoadPrefilterSummary(described);
  const auto bloom = wire::LoadFilterSummary(described);
  if (!bloom.ok()) return bloom.status();
  wire::PrefilterSummary summary;
  summary.bytes = bloom->shape.bytes();
  summary.bits_set = bloom->bits_set;
  summary.false_positive_rate = EstimatedFalsePositiveRate(bloom->shape, bloom->bits_set);
  return summary;
}

// Returns the time of the owner with the oldest checkpoint; 0 if an owner does not report it.
std::uint64_t LastDurableAtMs(const placement::Namespace& space,
                              const std::vector<Result<v1::NodeStatusResponse>>& nodes) {
  std::uint64_t oldest_ms = UINT64_MAX;
  for (const placement::PartitionPlace& place : space.partitions) {
    const auto& node = nodes[place.node.value()];
    oldest_ms = std::min(oldest_ms, node.ok() ? node->last_durable_at_ms() : 0);
  }
  return oldest_ms;
}

// Adds the residence of the owners that have answered; no value if none of them has devices.
void AddResidence(const std::vector<Result<v1::NodeStatusResponse>>& nodes,
                  v1::DescribeNamespaceResponse* response) {
  v1::Residence sum;
  bool any = false;
  for (const auto& node : nodes) {
    if (!node.ok() || node->partitions_size() == 0) continue;
    response->set_written_bytes(response->written_bytes() + node->spill().written_bytes() +
                                node->spill().durable_written_bytes());
    response->set_record_bytes(response->record_bytes() + node->spill().record_bytes());
    for (const v1::PartitionStatus& partition : node->partitions()) {
      const v1::Residence& where = partition.residence();
      any = any || partition.has_residence();
      const bool all = !partition.has_residence();  // In memory.
      sum.set_memory_records(sum.memory_records() +
                             (all ? partition.records() : where.memory_records()));
      sum.set_memory_bytes(sum.memory_bytes() +
                           (all ? partition.live_bytes() : where.memory_bytes()));
      sum.set_device_records(sum.device_records() + where.device_records());
      sum.set_device_bytes(sum.device_bytes() + where.device_bytes());
      sum.set_cached_records(sum.cached_records() + where.cached_records());
      sum.set_sampled(sum.sampled() || where.sampled());
      sum.set_reads(sum.reads() + where.reads());
      sum.set_device_reads(sum.device_reads() + where.device_reads());
    }
  }
  if (any) *response->mutable_residence() = sum;
}

}  // namespace

void NamespacesService::WaitUntilInstalled(Epoch epoch, Deadline deadline) {
  const Deadline soon(std::min(deadline.at_ns(), Deadline::AfterMs(kInstallWaitMs).at_ns()));
  // Later is no failure: a group that arrives before the map waits for it in its core.
  node_.map.WaitFor(epoch, soon);
}

template <typename Request, typename Response, typename Method>
grpc::Status NamespacesService::Forward(grpc::ServerContext* call, const Request& request,
                                        Response* response, Method method) {
  const Deadline deadline = DeadlineOf(*call);
  const placement::PlacementMapPtr map = node_.map.Get();
  const placement::Node* elected = node_.CoordinatorNode(*map);
  if (elected == nullptr || elected->id == node_.self() || IsForwarded(*call)) {
    return ToGrpc(node_.NoCoordinator());
  }
  const placement::Node& coordinator = *elected;
  if (const Status answers = node_.CheckAnswers(coordinator.id); !answers.ok()) {
    return ToGrpc(answers);
  }
  grpc::ClientContext context;
  node_.peers.Prepare(&context, deadline);
  MarkForwarded(&context);
  const auto stub = v1::Namespaces::NewStub(node_.peers.Get(coordinator.control_address));
  const grpc::Status answered = ((*stub).*method)(&context, request, response);
  if (!answered.ok()) {
    return ToGrpc(convert::FromGrpc(answered, "the coordinator, " + NodeText(coordinator) + ","));
  }
  WaitUntilInstalled(Epoch(response->epoch()), deadline);
  return answered;
}

Status NamespacesService::CheckFilterFits(Kind kind, const placement::NamespaceOptions& options,
                                          Deadline deadline) {
  const placement::PlacementMapPtr map = node_.NewestMap();
  const auto at = NodesFor(map->nodes, options.home);
  if (!at.ok()) return at.status();
  const auto places = SpreadPartitions(*at, PartitionsWanted(kind, options));
  if (places.empty()) return OkStatus();  // The creation itself reports the error.
  const auto shape = ShapeOfFilter(options.expected_items, options.false_positive_rate,
                                   static_cast<std::uint32_t>(places.size()));
  if (!shape.ok()) return shape.status();
  const auto nodes = CollectNodeStatus(&node_, *map, NamespaceId(), deadline);
  for (const placement::Node& node : map->nodes) {
    const auto& status = nodes[node.id.value()];
    if (!status.ok()) continue;
    const auto here = static_cast<std::uint64_t>(std::count_if(
        places.begin(), places.end(),
        [&](const placement::PartitionPlace& place) { return place.node == node.id; }));
    const std::uint64_t bytes = here * shape->bytes();
    const std::uint64_t taken =
        status->memory().used_bytes() +
        node.cores * storage::CoreStoreOptions().reserve_blocks * limits::kSegmentBytes;
    const std::uint64_t left =
        status->memory().limit_bytes() - std::min(taken, status->memory().limit_bytes());
    if (bytes <= left) continue;
    return Status(StatusCode::kResourceExhausted,
                  "a filter for " + std::to_string(options.expected_items) + " items takes " +
                      std::to_string(bytes >> 20) + " MiB on " + NodeText(node) + ", which has " +
                      std::to_string(left >> 20) + " MiB left",
                  "expect fewer items, accept a higher rate, drop what is not needed, or start the "
                  "daemons with more --memory");
  }
  return OkStatus();
}

grpc::Status NamespacesService::Create(grpc::ServerContext* call,
                                       const v1::CreateNamespaceRequest* request,
                                       v1::CreateNamespaceResponse* response) {
  if (const Status joined = node_.CheckJoined(); !joined.ok()) return ToGrpc(joined);
  v1::CreateNamespaceRequest resolved = *request;
  if (request->options().home() == placement::kHomeLocal) {
    resolved.mutable_options()->set_home(std::to_string(node_.self().value()));
  }
  Coordinator* coordinator = node_.ActingCoordinator();
  if (coordinator == nullptr) {
    return Forward(call, resolved, response, &v1::Namespaces::Stub::Create);
  }
  auto options = convert::FromProto(resolved.options());
  if (!options.ok()) return ToGrpc(options.status());
  const auto kind = request->kind() >= 0 && request->kind() <= v1::KIND_ARRAY
                        ? static_cast<placement::Kind>(request->kind())
                        : placement::Kind::kUnspecified;
  const Deadline deadline = DeadlineOf(*call);
  const bool has_filter = kind == Kind::kBloom || options->expected_items != 0;
  if (has_filter && CheckNamespaceOptions(kind, *options).ok() &&
      node_.NewestMap()->Find(request->name()) == nullptr) {
    if (const Status fits = CheckFilterFits(kind, *options, deadline); !fits.ok())
      return ToGrpc(fits);
  }
  auto made = coordinator->CreateNamespace(request->name(), kind, *std::move(options), deadline);
  if (!made.ok()) return ToGrpc(made.status());
  convert::ToProto(*made->space, response->mutable_namespace_());
  response->set_created(made->created);
  response->set_epoch(made->epoch.value());
  WaitUntilInstalled(made->epoch, deadline);
  return grpc::Status::OK;
}

grpc::Status NamespacesService::Drop(grpc::ServerContext* call,
                                     const v1::DropNamespaceRequest* request,
                                     v1::DropNamespaceResponse* response) {
  if (const Status joined = node_.CheckJoined(); !joined.ok()) return ToGrpc(joined);
  Coordinator* coordinator = node_.ActingCoordinator();
  if (coordinator == nullptr) {
    return Forward(call, *request, response, &v1::Namespaces::Stub::Drop);
  }
  auto dropped = coordinator->DropNamespace(request->name());
  if (!dropped.ok()) return ToGrpc(dropped.status());
  response->set_epoch(dropped->value());
  WaitUntilInstalled(*dropped, DeadlineOf(*call));
  return grpc::Status::OK;
}

grpc::Status NamespacesService::AcceptLoss(grpc::ServerContext* call,
                                           const v1::AcceptLossRequest* request,
                                           v1::AcceptLossResponse* response) {
  if (const Status joined = node_.CheckJoined(); !joined.ok()) return ToGrpc(joined);
  Coordinator* coordinator = node_.ActingCoordinator();
  if (coordinator == nullptr) {
    return Forward(call, *request, response, &v1::Namespaces::Stub::AcceptLoss);
  }
  auto accepted = coordinator->AcceptLoss(request->name());
  if (!accepted.ok()) return ToGrpc(accepted.status());
  response->set_partitions_accepted(accepted->partitions_accepted);
  response->set_epoch(accepted->epoch.value());
  WaitUntilInstalled(accepted->epoch, DeadlineOf(*call));
  return grpc::Status::OK;
}

grpc::Status NamespacesService::List(grpc::ServerContext* call, const v1::ListNamespacesRequest*,
                                     v1::ListNamespacesResponse* response) {
  if (const Status joined = node_.CheckJoined(); !joined.ok()) return ToGrpc(joined);
  // A namespace that another node has just made must be in the list.
  if (node_.ActingCoordinator() == nullptr) {
    node_.member.load()->Sync(
        Deadline(std::min(DeadlineOf(*call).at_ns(), Deadline::AfterMs(kInstallWaitMs).at_ns())));
  }
  const placement::PlacementMapPtr map = node_.NewestMap();
  for (const auto& [id, space] : map->namespaces) {
    convert::ToProto(*space, response->add_namespaces());
  }
  return grpc::Status::OK;
}

// Partitions that do not answer are left out, as their records are.
void NamespacesService::DescribeFilter(const placement::Namespace& space, Deadline deadline,
                                       v1::DescribeNamespaceResponse* response) {
  const bool is_bloom = space.kind == Kind::kBloom;
  wire::Operation describe;
  describe.opcode = is_bloom ? wire::Opcode::kBloomDescribe : wire::Opcode::kPrefilterDescribe;
  const Deadline soon(std::min(deadline.at_ns(), Deadline::AfterMs(kNodeStatusTimeoutMs).at_ns()));
  auto* filter = response->mutable_filter();
  double errors = 0;
  double answered = 0;
  for (std::uint32_t i = 0; i < space.partitions.size(); ++i) {
    const auto outcomes =
        node_.router->ExecuteAt(space, i, {describe}, wire::kPrefilterSummaryBytes, soon);
    if (!outcomes.ok() || outcomes->front().code != StatusCode::kOk) continue;
    const auto summary = SummaryOf(is_bloom, AsBytes(outcomes->front().value));
    if (!summary.ok()) continue;
    filter->set_bytes(filter->bytes() + summary->bytes);
    filter->set_bits_set(filter->bits_set() + summary->bits_set);
    filter->set_keys(filter->keys() + summary->keys);
    errors += summary->false_positive_rate;
    ++answered;
  }
  // An absent value is equally likely in each partition.
  if (answered > 0) filter->set_false_positive_rate(errors / answered);
}

grpc::Status NamespacesService::Describe(grpc::ServerContext* call,
                                         const v1::DescribeNamespaceRequest* request,
                                         v1::DescribeNamespaceResponse* response) {
  const Deadline deadline = DeadlineOf(*call);
  auto space = node_.FindNamespace(request->name(), deadline);
  if (!space.ok()) return ToGrpc(space.status());
  convert::ToProto(**space, response->mutable_namespace_());
  for (std::uint32_t i = 0; i < (*space)->partitions.size(); ++i) {
    auto* entry = response->add_partitions();
    entry->set_index(i);
    *entry->mutable_partition() = response->namespace_().partitions(static_cast<int>(i));
  }
  const placement::PlacementMapPtr map = node_.NewestMap();
  const auto nodes = CollectNodeStatus(&node_, *map, (*space)->id, deadline, /*residence=*/true);
  AddResidence(nodes, response);
  for (const auto& node : nodes) {
    if (!node.ok()) continue;  // Its partitions show as down, and their contents are unknown.
    for (const auto& partition : node->partitions()) {
      if (partition.index() >= static_cast<std::uint32_t>(response->partitions_size())) continue;
      auto* entry = response->mutable_partitions(static_cast<int>(partition.index()));
      entry->set_records(partition.records());
      entry->set_live_bytes(partition.live_bytes());
    }
  }
  if ((*space)->options.durable())
    response->set_last_durable_at_ms(LastDurableAtMs(**space, nodes));
  const NamespaceTotals totals = TotalsOf(&node_, *map, nodes)[(*space)->id];
  response->set_records(totals.records);
  response->set_internal_records(totals.internal_records);
  response->set_live_bytes(totals.live_bytes);
  if ((*space)->kind == Kind::kBloom || (*space)->options.prefilter != "none") {
    DescribeFilter(**space, deadline, response);
  }
  return grpc::Status::OK;
}

}  // namespace tidepool::daemon
