// The public Client: namespaces, descriptions and measurements.
#include "tidepool/client.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "client/calls/calls.h"
#include "client/calls/durations.h"
#include "client/engine/connector.h"
#include "client/engine/engine.h"
#include "client/engine/space.h"
#include "proto/base/clock.h"
#include "proto/placement/record_types.h"

namespace tidepool {
namespace {

using internal::Engine;

// Nothing takes for ever.
constexpr std::uint64_t kMigrateMsMax = 3'600'000;

Deadline ControlDeadline(const Engine& engine) {
  return Deadline(internal::DeadlineFor(engine, std::chrono::milliseconds(0), 0));
}

// Lanes are the partitions of a queue.
placement::NamespaceOptions ToPlacement(const NamespaceOptions& from) {
  placement::NamespaceOptions to;
  to.partitions = from.lanes != 0 ? from.lanes : from.partitions;
  to.durability = ToString(from.durability);
  to.replicas = from.replicas;
  to.on_loss = ToString(from.on_loss);
  to.medium = ToString(from.medium);
  to.ttl_ms = internal::ToTtlMs(from.ttl);
  to.memory_share_percent = from.memory_share_percent;
  to.prefilter = ToString(from.prefilter);
  to.expected_items = from.expected_items;
  to.false_positive_rate = from.false_positive_rate;
  to.capacity = from.capacity;
  to.home = ToString(from.home);
  to.split_keys = from.split_keys;
  to.split = ToString(from.split);
  to.key_type = from.key_type;
  to.value_type = from.value_type;
  return to;
}

// kUnimplemented: a daemon of a newer version has an option that this library does not know.
Status SetChoices(const placement::NamespaceOptions& from, NamespaceOptions* to) {
  const auto durability = ParseDurability(from.durability);
  const auto on_loss = ParseOnLoss(from.on_loss);
  const auto medium = ParseMedium(from.medium);
  const auto prefilter = ParsePrefilter(from.prefilter);
  const auto split = ParseSplitMode(from.split);
  const auto home = ParseHome(from.home);
  for (const Status& status : {durability.status(), on_loss.status(), medium.status(),
                               prefilter.status(), split.status(), home.status()}) {
    if (status.ok()) continue;
    return Status(
        StatusCode::kUnimplemented,
        "the cluster has an option that this library does not know: " + std::string(status.what()),
        "use the library of the cluster's version");
  }
  to->durability = *durability;
  to->on_loss = *on_loss;
  to->medium = *medium;
  to->prefilter = *prefilter;
  to->split = *split;
  to->home = *home;
  return {};
}

Result<NamespaceInfo> ToInfo(const placement::Namespace& from, const placement::PlacementMap& map) {
  NamespaceInfo info;
  info.name = from.name;
  info.kind = static_cast<NamespaceKind>(from.kind);
  info.id = from.id.value();
  NamespaceOptions& options = info.options;
  TP_RETURN_IF_ERROR(SetChoices(from.options, &options));
  options.ttl = internal::FromTtlMs(from.options.ttl_ms);
  options.expected_items = from.options.expected_items;
  options.false_positive_rate = from.options.false_positive_rate;
  options.capacity = from.options.capacity;
  options.memory_share_percent = from.options.memory_share_percent;
  options.key_type = from.options.key_type;
  options.value_type = from.options.value_type;
  options.partitions = static_cast<std::uint32_t>(from.partitions.size());
  if (from.kind == placement::Kind::kQueue) options.lanes = options.partitions;
  options.replicas = from.options.replicas;
  if (from.ranges != nullptr) {
    for (const std::uint32_t index : from.ranges->order()) {
      const std::string& begin = from.ranges->BeginOf(index);
      if (!begin.empty()) info.options.split_keys.push_back(begin);
    }
  }
  for (const auto& place : from.partitions) {
    const placement::Node* node = map.FindNode(place.node);
    if (place.state == placement::PartitionState::kLost) {
      ++info.partitions_lost;
    } else if (place.state == placement::PartitionState::kDown || node == nullptr ||
               node->state != placement::NodeState::kUp) {
      ++info.partitions_down;
    }
  }
  return info;
}

// Fetches the map until its epoch reaches `at_least`. A node may receive the map later than the
// node that handled the request.
Status AwaitMap(Engine& engine, Epoch at_least, Deadline deadline) {
  for (;;) {
    const Status status = engine.RefreshMap(at_least, deadline);
    if (status.code() != StatusCode::kDeadlineExceeded || deadline.Passed()) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

Result<Namespace> OpenById(const std::shared_ptr<Engine>& engine, internal::SpaceState* state,
                           NamespaceKind kind, const NamespaceOptions& wanted) {
  if (state->kind != static_cast<placement::Kind>(kind)) {
    return Status(StatusCode::kFailedPrecondition,
                  "namespace '" + state->name + "' is of kind " +
                      std::string(placement::KindName(state->kind)) + ", not " +
                      std::string(NamespaceKindName(kind)),
                  "open it as what it is, or another");
  }
  TP_RETURN_IF_ERROR(placement::CheckTypesAgree(state->name, state->options, ToPlacement(wanted)));
  return Namespace(std::make_shared<internal::Space>(engine, state));
}

// Any node takes the request and asks the coordinator; a node that cannot be reached is passed
// over. If no node answers, the addresses of the connection file are asked, too.
template <typename Ask>
Status AskAnyNode(Engine& engine, Ask ask) {
  Status status(StatusCode::kUnavailable, "no node of the cluster is known");
  const auto ask_all = [&] {
    for (const std::string& address : engine.Addresses()) {
      status = ask(address);
      if (status.code() != StatusCode::kUnavailable) break;
    }
  };
  ask_all();
  if (status.code() == StatusCode::kUnavailable && engine.RereadAddresses()) ask_all();
  return status;
}

// Finds the number of a node on this machine, if the caller asked for "local".
Status ResolveHome(const Engine& engine, std::string* home) {
  if (*home != placement::kHomeLocal) return {};
  const std::string host = internal::HostName();
  const placement::PlacementMapPtr map = engine.map();
  for (const placement::Node& node : map->nodes) {
    if (node.state != placement::NodeState::kUp || node.host != host) continue;
    *home = std::to_string(node.id.value());
    return {};
  }
  return Status(StatusCode::kFailedPrecondition,
                "no node of the cluster is up on this machine, '" + host + "'",
                "give a node's number as home, or none");
}

Result<Namespace> CreateAndOpen(const std::shared_ptr<Engine>& engine, std::string_view name,
                                NamespaceKind kind, const NamespaceOptions& options,
                                bool must_create) {
  TP_RETURN_IF_ERROR(engine->Usable());
  TP_RETURN_IF_ERROR(placement::CheckNamespaceName(name));
  if (options.ttl.count() < 0) {
    return Status(StatusCode::kInvalidArgument,
                  "the ttl of a namespace cannot be " + std::to_string(options.ttl.count()) + " ms",
                  "give one above 0, or 0 for ever");
  }
  if (options.lanes != 0 && kind != NamespaceKind::kQueue) {
    return Status(StatusCode::kInvalidArgument,
                  "only namespaces of kind 'queue' have lanes, not of kind '" +
                      std::string(NamespaceKindName(kind)) + "'",
                  "leave lanes out");
  }
  const Deadline deadline = ControlDeadline(*engine);
  placement::NamespaceOptions wanted = ToPlacement(options);
  TP_RETURN_IF_ERROR(ResolveHome(*engine, &wanted.home));
  internal::CreateReply reply;
  TP_RETURN_IF_ERROR(AskAnyNode(*engine, [&](const std::string& address) -> Status {
    auto answer = engine->control().CreateNamespace(
        address, std::string(name), static_cast<placement::Kind>(kind), wanted, deadline);
    if (answer.ok()) reply = *answer;
    return answer.status();
  }));
  if (must_create && !reply.created) {
    return Status(StatusCode::kAlreadyExists,
                  "namespace '" + std::string(name) + "' exists already");
  }
  TP_RETURN_IF_ERROR(AwaitMap(*engine, reply.epoch, deadline));
  internal::SpaceState* state = engine->FindSpace(reply.id);
  if (state == nullptr) {
    return Status(StatusCode::kNotFound,
                  "namespace '" + std::string(name) + "' was dropped as soon as it was made");
  }
  return OpenById(engine, state, kind, options);
}

// Returns the time of a round trip over the data path, in ns: the least of a few, after a first
// trip that connects.
Result<std::uint64_t> MeasureNode(const std::shared_ptr<Engine>& engine, NodeId node) {
  constexpr int kRounds = 5;
  internal::SpaceState* state = nullptr;
  std::uint32_t partition = 0;
  const placement::PlacementMapPtr map = engine->map();
  for (const auto& [id, space] : map->namespaces) {
    internal::SpaceState* candidate = engine->FindSpace(id);
    if (candidate == nullptr || candidate->kind == placement::Kind::kOrdered) continue;
    auto found = engine->PartitionOn(*candidate, node);
    if (!found.ok()) continue;
    state = candidate;
    partition = *found;
    break;
  }
  if (state == nullptr) {
    return Status(StatusCode::kNotFound,
                  "node " + std::to_string(node.value()) + " holds no partition to ask");
  }
  const internal::Space space(engine, state);
  std::uint64_t best_ns = ~0ull;
  for (int round = 0; round <= kRounds; ++round) {
    internal::Call* call = internal::Call::Make(1, 0);
    call->operations()[0].queue = &state->queues[partition];
    call->operations()[0].opcode = wire::Opcode::kLength;
    const std::uint64_t begin_ns = Clock::Real().MonotonicNs();
    const internal::CallRef done =
        internal::StartCall(space, call, internal::Mode::kSync, std::chrono::milliseconds(0), 0);
    const std::uint64_t took_ns = Clock::Real().MonotonicNs() - begin_ns;
    const Status status = done.get()->StatusOf(done.get()->operations()[0]);
    if (!status.ok()) return status;
    if (round > 0) best_ns = std::min(best_ns, took_ns);
  }
  return best_ns;
}

}  // namespace

Result<Client> Client::Connect(const ConnectOptions& options) {
  auto engine = internal::ConnectEngine(options);
  if (!engine.ok()) return engine.status();
  return Client(*std::move(engine));
}

Result<Namespace> Client::OpenOrCreateNamespace(std::string_view name, NamespaceKind kind,
                                                const NamespaceOptions& options) {
  return CreateAndOpen(engine_, name, kind, options, false);
}

Result<Namespace> Client::CreateNamespace(std::string_view name, NamespaceKind kind,
                                          const NamespaceOptions& options) {
  return CreateAndOpen(engine_, name, kind, options, true);
}

Result<Namespace> Client::OpenNamespace(std::string_view name, NamespaceKind kind,
                                        const NamespaceOptions& types) {
  TP_RETURN_IF_ERROR(engine_->Usable());
  TP_RETURN_IF_ERROR(placement::CheckNamespaceName(name));
  // Asked each time: the name may stand for another namespace than yesterday.
  TP_RETURN_IF_ERROR(engine_->RefreshMap(Epoch(), ControlDeadline(*engine_)));
  internal::SpaceState* state = engine_->FindSpace(name);
  if (state == nullptr) {
    return Status(StatusCode::kNotFound, "no namespace '" + std::string(name) + "'",
                  "create it with: kvctl namespace create " + std::string(name));
  }
  return OpenById(engine_, state, kind, types);
}

Status Client::Drop(std::string_view name) {
  TP_RETURN_IF_ERROR(engine_->Usable());
  const Deadline deadline = ControlDeadline(*engine_);
  Epoch epoch;
  TP_RETURN_IF_ERROR(AskAnyNode(*engine_, [&](const std::string& address) {
    return engine_->control().DropNamespace(address, std::string(name), &epoch, deadline);
  }));
  return AwaitMap(*engine_, epoch, deadline);
}

Status Client::Persist(std::string_view name) {
  TP_RETURN_IF_ERROR(engine_->Usable());
  const Deadline deadline = ControlDeadline(*engine_);
  return AskAnyNode(*engine_, [&](const std::string& address) {
    return engine_->control().PersistNamespace(address, std::string(name), deadline);
  });
}

Status Client::Migrate(std::string_view name, const Home& to, std::chrono::milliseconds hold) {
  TP_RETURN_IF_ERROR(engine_->Usable());
  std::string number = ToString(to);
  TP_RETURN_IF_ERROR(ResolveHome(*engine_, &number));
  // The time depends on the amount of data. The daemons bound each step.
  const Deadline deadline = Deadline::AfterMs(kMigrateMsMax);
  const auto hold_ms = static_cast<std::uint64_t>(std::max<std::int64_t>(hold.count(), 0));
  Epoch epoch;
  TP_RETURN_IF_ERROR(AskAnyNode(*engine_, [&](const std::string& address) {
    return engine_->control().MigrateNamespace(address, std::string(name), number, hold_ms, &epoch,
                                               deadline);
  }));
  return AwaitMap(*engine_, epoch, ControlDeadline(*engine_));
}

Result<std::vector<NamespaceInfo>> Client::List() {
  TP_RETURN_IF_ERROR(engine_->Usable());
  TP_RETURN_IF_ERROR(engine_->RefreshMap(Epoch(), ControlDeadline(*engine_)));
  const placement::PlacementMapPtr map = engine_->map();
  std::vector<NamespaceInfo> infos;
  for (const auto& [id, space] : map->namespaces) {
    auto info = ToInfo(*space, *map);
    if (!info.ok()) return info.status();
    infos.push_back(*std::move(info));
  }
  std::sort(infos.begin(), infos.end(),
            [](const NamespaceInfo& a, const NamespaceInfo& b) { return a.name < b.name; });
  return infos;
}

ClientDescription Client::Describe() const {
  ClientDescription description;
  description.cluster_file = engine_->options().cluster_file;
  const placement::PlacementMapPtr map = engine_->map();
  if (map == nullptr) return description;
  description.cluster_uuid = map->cluster_uuid;
  description.epoch = map->epoch.value();
  const std::string host = internal::HostName();
  for (const placement::Node& node : map->nodes) {
    std::string path = engine_->DataPath(node.id);
    // Two containers of a machine have different names for it; a ring is proof.
    const bool local = node.host == host || path == "ring";
    description.nodes.push_back({node.id.value(), node.host, local, node.control_address,
                                 std::string(placement::NodeStateName(node.state)), node.cores,
                                 engine_->Attached(node.id), std::move(path)});
  }
  return description;
}

std::vector<PingResult> Client::Ping() {
  std::vector<PingResult> results;
  const placement::PlacementMapPtr map = engine_->map();
  if (map == nullptr) return results;
  for (const placement::Node& node : map->nodes) {
    PingResult result;
    result.node = node.id.value();
    result.host = node.host;
    auto measured = MeasureNode(engine_, node.id);
    if (measured.ok()) result.round_trip = std::chrono::nanoseconds(*measured);
    result.status = measured.status();
    result.data_path = engine_->DataPath(node.id);
    results.push_back(std::move(result));
  }
  return results;
}

ClientStats Client::Stats() const { return engine_->Stats(); }

Status Client::WaitForAll(std::chrono::milliseconds timeout) {
  return engine_->WaitForAll(timeout);
}

void Client::Close() { engine_->Close(); }

}  // namespace tidepool
