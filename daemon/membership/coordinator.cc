#include "daemon/membership/coordinator.h"

#include <algorithm>
#include <utility>

#include "daemon/membership/entry_change.h"
#include "daemon/membership/namespace_rules.h"
#include "daemon/membership/replica_rules.h"
#include "daemon/membership/state_rules.h"
#include "proto/base/check.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"
#include "proto/cluster_file/random.h"
#include "proto/convert/placement_convert.h"

namespace tidepool::daemon {
namespace {

// For messages: "node 2 (uuid, host)".
std::string Describe(const placement::Node& node) {
  return "node " + std::to_string(node.id.value()) + " (" + node.uuid + ", " + node.host + ")";
}

std::string DescribeCaller(const v1::JoinRequest& request) {
  return "the daemon " + request.uuid() + " on " + request.host();
}

Status CheckJoinRequest(const v1::JoinRequest& request) {
  const bool is_sound = cluster_file::IsUuid(request.uuid()) && request.incarnation() > 0 &&
                        request.cores() >= 1 && request.cores() <= limits::kCoresPerNodeMax &&
                        !request.control_address().empty() &&
                        request.control_address().size() <= 300 && request.host().size() <= 255 &&
                        request.directory().size() <= 4096 && request.version().size() <= 100 &&
                        request.nvm_medium().size() <= 10 && request.mark().size() <= 64 &&
                        request.mark_before().size() <= 64;
  if (is_sound) return OkStatus();
  return Status(StatusCode::kInvalidArgument, "malformed Join request");
}

// Those of the request that cannot be are no partition of any namespace, and do nothing.
KeptOnDevices KeptOf(const v1::JoinRequest& request) {
  KeptOnDevices kept;
  kept.complete = request.kept_complete();
  for (const auto& each : request.kept()) {
    if (each.namespace_id() > limits::kNamespacesMax ||
        each.index() >= limits::kPartitionsPerNamespaceMax || each.term() > limits::kTermMax) {
      continue;
    }
    kept.partitions.emplace(PartitionId(NamespaceId(each.namespace_id()), each.index()),
                            KeptPartition{Term(each.term()), Lsn(each.last_version())});
  }
  return kept;
}

// Fields that may change from start to start.
void TakeOver(const v1::JoinRequest& request, placement::Node* node, NodeRecord* record) {
  node->incarnation = request.incarnation();
  node->control_address = request.control_address();
  node->host = request.host();
  node->cores = request.cores();
  node->version = request.version();
  node->pid = request.pid();
  node->state = placement::NodeState::kUp;
  record->nvm = request.nvm();
  record->nvm_medium = request.nvm_medium();
  record->directory = request.directory();
  record->device = request.directory_device();
  record->inode = request.directory_inode();
  record->mark = request.mark();
  record->nothing_to_lose.clear();
}

}  // namespace

Coordinator::Coordinator(ClusterStore* store, const CoordinatorOptions& options, const Clock& clock)
    : store_(*store), options_(options), clock_(clock) {}

Result<std::unique_ptr<Coordinator>> Coordinator::Open(ClusterStore* store,
                                                       const CoordinatorOptions& options,
                                                       const Clock& clock) {
  auto loaded = store->Load();
  if (!loaded.ok()) return loaded.status();
  std::unique_ptr<Coordinator> coordinator(new Coordinator(store, options, clock));
  coordinator->last_tick_ns_ = clock.MonotonicNs();
  ClusterState& state = coordinator->state_;
  if (!loaded->has_value()) {
    state.map.cluster_uuid = cluster_file::MakeUuid();
    state.map.nodes_expected = options.nodes_expected;
    coordinator->cluster_uuid_ = state.map.cluster_uuid;
    return coordinator;
  }
  state = *std::move(*loaded);
  coordinator->cluster_uuid_ = state.map.cluster_uuid;
  if (options.nodes_given && options.nodes_expected != state.map.nodes_expected) {
    return Status(StatusCode::kFailedPrecondition,
                  store->Describe() + " holds a cluster of " +
                      std::to_string(state.map.nodes_expected) + " nodes, not of " +
                      std::to_string(options.nodes_expected),
                  "start it with --nodes " + std::to_string(state.map.nodes_expected) +
                      ", or give another --data-dir for a new cluster");
  }
  // Whoever was up gets a lease's time to be heard again.
  for (const placement::Node& node : state.map.nodes) {
    Liveness& liveness = coordinator->liveness_.emplace_back();
    liveness.incarnation = node.incarnation;
    liveness.heard_ns = clock.MonotonicNs();
    liveness.up = node.state == placement::NodeState::kUp;
  }
  ShowReplicas(&state);
  coordinator->Publish();
  log::Info("coordinator goes on with cluster " + coordinator->cluster_uuid_ + " at epoch " +
            std::to_string(state.map.epoch.value()));
  return coordinator;
}

Status Coordinator::Commit(ClusterState next) {
  placement::ForgetOldDrops(&next.map);
  RenewEntries(state_, &next);
  const std::vector<DeadProcess> dead = KeepReplicas(state_, PausedRepairs(), &next);
  const std::string_view broken = BrokenRule(state_, next);
  if (!broken.empty()) log::Error("a change of the cluster's state breaks: " + std::string(broken));
  TP_CHECK(broken.empty());
  const Status saved = dead.empty() ? store_.Save(next, state_.map.epoch)
                                    : store_.SaveIfDead(next, state_.map.epoch, dead);
  if (!saved.ok()) {
    log::Error("the cluster's state could not be saved: " + saved.ToString());
    return saved;
  }
  state_ = std::move(next);
  Publish();
  return OkStatus();
}

// Only Commit and Open call it, with a state that the store has.
void Coordinator::Publish() {
  const placement::PlacementMapPtr before = published_.Get();
  TP_CHECK(before == nullptr || before->epoch < state_.map.epoch);
  published_.Set(std::make_shared<const placement::PlacementMap>(state_.map));
}

Result<NodeId> Coordinator::Admit(const v1::JoinRequest& request, ClusterState* next) const {
  placement::PlacementMap& map = next->map;
  if (map.nodes.size() >= map.nodes_expected) {
    return Status(
        StatusCode::kFailedPrecondition,
        DescribeCaller(request) + " is a stranger: cluster " + map.cluster_uuid + " has all its " +
            std::to_string(map.nodes_expected) + " nodes",
        "a node that comes back must use the data folder that it had; for another service "
        "give another --cluster file");
  }
  const NodeId id(static_cast<std::uint16_t>(map.nodes.size()));
  placement::Node& node = map.nodes.emplace_back();
  node.id = id;
  node.uuid = request.uuid();
  TakeOver(request, &node, &next->nodes.emplace_back());
  return id;
}

// A moved folder may be a copy, whose original lives: its lock proves nothing of the original. The
// node's heartbeats do. A crashed node counts as up for a lease, so the caller asks again
// meanwhile.
Status Coordinator::CheckNotAlive(const v1::JoinRequest& request, NodeId id, bool is_own) {
  const placement::Node& node = state_.map.nodes[id.value()];
  const std::string what = DescribeCaller(request) + " runs in a copy (" + request.directory() +
                           ") of the data folder of " + Describe(node) + " (" +
                           state_.nodes[id.value()].directory + ")";
  const Status alive(StatusCode::kFailedPrecondition, what + ", which is alive",
                     "the original goes on. To use the copy instead, stop the original first: "
                     "kvctl stop, or SIGTERM to pid " +
                         std::to_string(node.pid) + " on " + node.host);
  if (is_own) {  // Nobody but the store could have heard it.
    const auto known = store_.KnowsAlive(node);
    return known.ok() && *known ? alive : OkStatus();
  }
  if (node.state != placement::NodeState::kUp) return OkStatus();
  const std::uint64_t now_ns = clock_.MonotonicNs();
  const std::lock_guard lock(liveness_mutex_);
  Liveness& liveness = liveness_[id.value()];
  const std::uint64_t lease_ns = options_.lease_ms * 1'000'000ull;
  if (liveness.moved_asked_ns == 0 || now_ns > liveness.moved_asked_ns + 2 * lease_ns) {
    liveness.moved_asked_ns = now_ns;
  } else if (liveness.heard_ns > liveness.moved_asked_ns) {
    return alive;
  }
  return Status(StatusCode::kUnavailable, what + ", which counts as up until its lease ends",
                "try again in " + std::to_string(options_.lease_ms) + " ms");
}

Status Coordinator::CheckFolder(const v1::JoinRequest& request, NodeId id, bool is_own) {
  const placement::Node& node = state_.map.nodes[id.value()];
  const NodeRecord& record = state_.nodes[id.value()];
  if (request.incarnation() <= node.incarnation) {
    return Status(
        StatusCode::kFailedPrecondition,
        DescribeCaller(request) + " has incarnation " + std::to_string(request.incarnation()) +
            ", but " + Describe(node) + " has been seen with " + std::to_string(node.incarnation),
        "its data folder is an old copy. Use the newest one: " + record.directory + " on " +
            node.host + "; if that is gone for good, start kvd here with --adopt");
  }
  const bool knows_mark = record.mark.empty() || request.mark().empty() ||
                          request.mark() == record.mark || request.mark_before() == record.mark;
  if (!knows_mark && !request.adopt()) {
    return Status(StatusCode::kFailedPrecondition,
                  DescribeCaller(request) + " runs in an older copy (" + request.directory() +
                      ") of the data folder of " + Describe(node) + ", which has been used since",
                  "use the newest one: " + record.directory + " on " + node.host +
                      "; if that is gone for good, start kvd here with --adopt");
  }
  const bool is_moved = request.host() != node.host ||
                        request.directory_device() != record.device ||
                        request.directory_inode() != record.inode;
  // The lock on the same folder proves that the process before is gone.
  if (!is_moved && !request.adopt()) return OkStatus();
  TP_RETURN_IF_ERROR(CheckNotAlive(request, id, is_own));
  if (is_moved) {
    log::Info(Describe(node) + " was moved: its data folder was " + record.directory + ", and is " +
              request.directory() + " on " + request.host() + " now");
  }
  return OkStatus();
}

Status Coordinator::Readmit(const v1::JoinRequest& request, NodeId id, bool is_own,
                            ClusterState* next) {
  TP_RETURN_IF_ERROR(CheckFolder(request, id, is_own));
  placement::Node& node = next->map.nodes[id.value()];
  NodeRecord& record = next->nodes[id.value()];
  if (const auto* space = FirstKeptOn(id, next->map); space != nullptr && !request.nvm()) {
    return Status(StatusCode::kFailedPrecondition,
                  DescribeCaller(request) + " has no device, and " + Describe(node) +
                      " keeps its part of the durable namespace '" + space->name + "' on one",
                  "give --nvm-dir as before; if the device is gone for good, an empty directory: "
                  "what it held is lost then");
  }
  const NodeRecord before = record;
  TakeOver(request, &node, &record);
  TP_RETURN_IF_ERROR(CheckMediaOf(node, record, next->map));
  return RegrantPartitions(id, before, KeptOf(request), next->map.epoch, clock_.WallMs(),
                           &next->map);
}

Result<v1::JoinResponse> Coordinator::Join(const v1::JoinRequest& request, bool is_own) {
  TP_RETURN_IF_ERROR(CheckJoinRequest(request));
  if (!request.cluster_uuid().empty() && request.cluster_uuid() != cluster_uuid_) {
    return Status(StatusCode::kFailedPrecondition,
                  "this is cluster " + cluster_uuid_ + ", not " + request.cluster_uuid(),
                  "the address or connection file is of another service");
  }
  if (!request.kept_cluster_uuid().empty() && request.kept_cluster_uuid() != cluster_uuid_) {
    return Status(
        StatusCode::kFailedPrecondition,
        DescribeCaller(request) + " has durable data of cluster " + request.kept_cluster_uuid() +
            " on its devices; this is cluster " + cluster_uuid_,
        "start it with that cluster's coordinator, which has its state in its data folder; "
        "or give an empty --nvm-dir");
  }
  const std::string store = request.store().empty() ? "embedded" : request.store();
  if (store != options_.store) {
    return Status(StatusCode::kFailedPrecondition,
                  DescribeCaller(request) + " was started with --store " + store.substr(0, 20) +
                      ", this cluster with --store " + options_.store,
                  "give all its daemons the same --store, --etcd and --etcd-prefix");
  }
  const std::lock_guard lock(state_mutex_);
  const auto& nodes = state_.map.nodes;
  const auto known = std::find_if(nodes.begin(), nodes.end(),
                                  [&](const auto& node) { return node.uuid == request.uuid(); });
  const bool is_first = nodes.empty() || known == nodes.begin();
  if (!is_first && request.version() != nodes.front().version) {
    return Status(StatusCode::kFailedPrecondition,
                  DescribeCaller(request) + " has version " + request.version() +
                      ", the coordinator " + nodes.front().version,
                  "run the same version on all nodes");
  }
  NodeId id;
  const bool is_repeated = known != nodes.end() && known->incarnation == request.incarnation() &&
                           known->control_address == request.control_address() &&
                           known->pid == request.pid() && known->state == placement::NodeState::kUp;
  if (is_repeated) {
    id = known->id;  // Our answer was lost on its way.
  } else {
    ClusterState next = state_;
    next.map.epoch = After(state_.map.epoch);
    if (known == nodes.end()) {
      auto admitted = Admit(request, &next);
      if (!admitted.ok()) return admitted.status();
      id = *admitted;
    } else {
      id = known->id;
      TP_RETURN_IF_ERROR(Readmit(request, id, is_own, &next));
    }
    if (!next.map.forming() && next.map.Find(kDefaultNamespace) == nullptr) {
      AddDefaultNamespace(&next);
    }
    TP_RETURN_IF_ERROR(Commit(std::move(next)));
    log::Info(Describe(state_.map.nodes[id.value()]) + " joined from " + request.control_address() +
              ", incarnation " + std::to_string(request.incarnation()) + "; " +
              std::to_string(state_.map.nodes.size()) + " of " +
              std::to_string(state_.map.nodes_expected) + " nodes");
  }
  SetAlive(id, request.incarnation());
  v1::JoinResponse response;
  response.set_node_id(id.value());
  response.set_lease_ms(options_.lease_ms);
  response.set_heartbeat_ms(options_.heartbeat_ms);
  convert::ToProto(placement::DeltaSince(state_.map, Epoch(0)), response.mutable_map());
  return response;
}

void Coordinator::AddDefaultNamespace(ClusterState* next) const {
  auto space = std::make_shared<placement::Namespace>();
  space->id = next->next_namespace;
  space->name = kDefaultNamespace;
  space->options.on_loss = "empty";
  space->partitions = SpreadPartitions(next->map.nodes, 0);
  space->options.partitions = static_cast<std::uint32_t>(space->partitions.size());
  space->changed = next->map.epoch;
  next->next_namespace = NamespaceId(space->id.value() + 1);
  next->map.namespaces.emplace(space->id, std::move(space));
}

void Coordinator::SetAlive(NodeId node, std::uint64_t incarnation) {
  const std::lock_guard lock(liveness_mutex_);
  if (liveness_.size() <= node.value()) liveness_.resize(node.value() + 1u);
  Liveness& liveness = liveness_[node.value()];
  liveness = Liveness();
  liveness.incarnation = incarnation;
  liveness.heard_ns = clock_.MonotonicNs();
  liveness.heard_wall_ms = clock_.WallMs();
  liveness.progress_ns = liveness.heard_ns;
  liveness.up = true;
}

Status Coordinator::CheckHeartbeat(std::uint32_t node, std::uint64_t incarnation) const {
  if (node >= liveness_.size()) {
    return Status(StatusCode::kNotFound,
                  "cluster " + cluster_uuid_ + " has no node " + std::to_string(node),
                  "start the daemon again, so that it joins");
  }
  if (liveness_[node].incarnation == incarnation) return OkStatus();
  return Status(StatusCode::kFailedPrecondition,
                "node " + std::to_string(node) + " has been started again since: incarnation " +
                    std::to_string(liveness_[node].incarnation) + ", not " +
                    std::to_string(incarnation),
                "only the newest process of a node may serve");
}

Result<v1::HeartbeatResponse> Coordinator::Heartbeat(const v1::HeartbeatRequest& request) {
  // Or a node would serve under a map that a save without an answer has replaced.
  if (store_.must_reload()) {
    return Status(StatusCode::kUnavailable, "the coordinator does not know its state for certain",
                  "ask again in a moment");
  }
  bool was_up = false;
  {
    const std::lock_guard lock(liveness_mutex_);
    TP_RETURN_IF_ERROR(CheckHeartbeat(request.node_id(), request.incarnation()));
    Liveness& liveness = liveness_[request.node_id()];
    liveness.heard_ns = clock_.MonotonicNs();
    liveness.heard_wall_ms = clock_.WallMs();
    was_up = liveness.up;
    NoteProgress(request, &liveness);
  }
  if (!was_up) TP_RETURN_IF_ERROR(BringUp(NodeId(static_cast<std::uint16_t>(request.node_id()))));
  v1::HeartbeatResponse response;
  response.set_lease_ms(options_.lease_ms);
  const placement::PlacementMapPtr map = published_.Get();
  if (map->epoch.value() != request.known_epoch()) {
    const Epoch since(std::min(request.known_epoch(), map->epoch.value()));
    convert::ToProto(placement::DeltaSince(*map, since), response.mutable_map());
  }
  return response;
}

// A core that stands still while its node's heartbeats arrive is stuck: nothing else would say so.
void Coordinator::NoteProgress(const v1::HeartbeatRequest& request, Liveness* liveness) {
  std::vector<std::uint64_t> progress(request.core_progress().begin(),
                                      request.core_progress().end());
  bool all_moved = progress.size() == liveness->progress.size();
  std::size_t stuck = 0;
  for (std::size_t i = 0; all_moved && i < progress.size(); ++i) {
    all_moved = progress[i] != liveness->progress[i];
    if (!all_moved) stuck = i;
  }
  if (all_moved || progress.size() != liveness->progress.size()) {
    liveness->progress = std::move(progress);
    liveness->progress_ns = liveness->heard_ns;
    liveness->stuck_logged = false;
    return;
  }
  const std::uint64_t still_ns = liveness->heard_ns - liveness->progress_ns;
  if (still_ns < options_.lease_ms * 1'000'000ull || liveness->stuck_logged) return;
  liveness->stuck_logged = true;
  log::Warn("core " + std::to_string(stuck) + " of node " + std::to_string(request.node_id()) +
            " has stood still for " + std::to_string(still_ns / 1'000'000) + " ms");
}

Status Coordinator::BringUp(NodeId id) {
  const std::lock_guard lock(state_mutex_);
  const placement::Node& node = state_.map.nodes[id.value()];
  if (node.state == placement::NodeState::kLeft) {
    return Status(StatusCode::kFailedPrecondition, Describe(node) + " has left the cluster",
                  "start the daemon again, so that it joins");
  }
  if (node.state == placement::NodeState::kDown) {
    ClusterState next = state_;
    next.map.epoch = After(state_.map.epoch);
    next.map.nodes[id.value()].state = placement::NodeState::kUp;
    MarkPartitionsBack(id, next.map.epoch, &next.map);
    TP_RETURN_IF_ERROR(Commit(std::move(next)));
    log::Info(Describe(state_.map.nodes[id.value()]) + " is heard again: up");
  }
  const std::lock_guard liveness_lock(liveness_mutex_);
  liveness_[id.value()].up = true;
  return OkStatus();
}

Status Coordinator::Leave(const v1::LeaveRequest& request) {
  const std::lock_guard lock(state_mutex_);
  {
    const std::lock_guard liveness_lock(liveness_mutex_);
    TP_RETURN_IF_ERROR(CheckHeartbeat(request.node_id(), request.incarnation()));
    liveness_[request.node_id()].up = false;
  }
  const NodeId id(static_cast<std::uint16_t>(request.node_id()));
  if (state_.map.nodes[id.value()].state == placement::NodeState::kLeft) return OkStatus();
  ClusterState next = state_;
  next.map.epoch = After(state_.map.epoch);
  next.map.nodes[id.value()].state = placement::NodeState::kLeft;
  MarkPartitionsDown(id, next.map.epoch, &next.map);
  for (const std::uint32_t space : request.empty_namespaces()) {
    if (next.map.Find(NamespaceId(space)) != nullptr) {
      next.nodes[id.value()].nothing_to_lose.insert(NamespaceId(space));
    }
  }
  TP_RETURN_IF_ERROR(Commit(std::move(next)));
  log::Info(Describe(state_.map.nodes[id.value()]) + " left");
  return OkStatus();
}

// A store that knows of nodes has the last word; one that does not answer could not be told either.
void Coordinator::ExceptThoseKnownAlive(std::vector<NodeId>* silent) {
  std::vector<NodeId> gone;
  for (const NodeId id : *silent) {
    const auto alive = store_.KnowsAlive(state_.map.nodes[id.value()]);
    if (!alive.ok()) return silent->clear();
    if (!*alive) gone.push_back(id);
  }
  *silent = std::move(gone);
}

// Silence after which a node is down, unless the store knows that it lives.
std::uint64_t Coordinator::SilenceMs() const {
  if (!store_.HearsOfDeaths()) return options_.lease_ms;
  return std::min<std::uint64_t>(options_.lease_ms, 2ull * options_.heartbeat_ms);
}

void Coordinator::Tick() {
  const std::lock_guard lock(state_mutex_);
  const std::uint64_t now_ns = clock_.MonotonicNs();
  const std::uint64_t lease_ns = options_.lease_ms * 1'000'000ull;
  const std::uint64_t silence_ns = SilenceMs() * 1'000'000;
  std::vector<NodeId> silent;
  {
    const std::lock_guard liveness_lock(liveness_mutex_);
    // Who slept was us (a stopped process, a slow disk): nobody could be heard meanwhile.
    const bool we_slept = now_ns - last_tick_ns_ > lease_ns / 2;
    last_tick_ns_ = now_ns;
    for (std::size_t i = 0; i < liveness_.size(); ++i) {
      Liveness& liveness = liveness_[i];
      if (we_slept) liveness.heard_ns = now_ns;
      // A heartbeat may have come in after now_ns was read.
      if (!liveness.up || now_ns <= liveness.heard_ns + silence_ns) continue;
      silent.push_back(NodeId(static_cast<std::uint16_t>(i)));
    }
  }
  ExceptThoseKnownAlive(&silent);
  {
    const std::lock_guard liveness_lock(liveness_mutex_);
    std::erase_if(silent, [&](NodeId id) {
      Liveness& liveness = liveness_[id.value()];
      liveness.up = liveness.heard_ns > now_ns;  // While the store was asked.
      return liveness.up;
    });
  }
  if (silent.empty()) return RepairReplicas();
  MarkDown(silent, "has been silent for " + std::to_string(SilenceMs()) + " ms");
}

// Partitions that got no copy when one was missing: no node was there, or a pause was due.
void Coordinator::RepairReplicas() {
  if (!LacksReplicas(state_, PausedRepairs())) return;
  ClusterState next = state_;
  next.map.epoch = After(state_.map.epoch);
  (void)Commit(std::move(next));
}

std::set<PartitionId> Coordinator::PausedRepairs() {
  const std::uint64_t now_ns = clock_.MonotonicNs();
  std::set<PartitionId> paused;
  std::erase_if(repair_not_before_ns_, [&](const auto& each) {
    if (each.second > now_ns) paused.insert(each.first);
    return each.second <= now_ns;
  });
  return paused;
}

void Coordinator::MarkDown(const std::vector<NodeId>& silent, const std::string& why) {
  ClusterState next = state_;
  next.map.epoch = After(state_.map.epoch);
  for (const NodeId id : silent) {
    if (next.map.nodes[id.value()].state != placement::NodeState::kUp) continue;
    next.map.nodes[id.value()].state = placement::NodeState::kDown;
    MarkPartitionsDown(id, next.map.epoch, &next.map);
  }
  if (Commit(std::move(next)).ok()) {
    for (const NodeId id : silent) {
      log::Warn(Describe(state_.map.nodes[id.value()]) + " " + why + ": down");
    }
    return;
  }
  // Not durable, so not true yet: try again at the next tick.
  const std::lock_guard liveness_lock(liveness_mutex_);
  for (const NodeId id : silent) liveness_[id.value()].up = true;
}

std::vector<std::uint64_t> Coordinator::LastHeartbeatsMs() const {
  const std::lock_guard lock(liveness_mutex_);
  std::vector<std::uint64_t> times;
  for (const Liveness& liveness : liveness_) times.push_back(liveness.heard_wall_ms);
  return times;
}

}  // namespace tidepool::daemon
