// Blocking work: fetching the map and attaching. A waiting thread does it unlocked. At most one
// fetch and one attach run at a time.
#include <algorithm>
#include <utility>

#include "client/direct/direct_space.h"
#include "client/engine/engine.h"
#include "proto/base/check.h"
#include "proto/cluster_file/cluster_file.h"

namespace tidepool::internal {
namespace {

constexpr std::uint64_t kMsNs = 1'000'000;
// Time of an attempt: long enough for a loaded machine, short enough to turn to another node.
constexpr std::uint64_t kAttemptNs = 2'000 * kMsNs;
constexpr std::uint64_t kMapRetryNs = 50 * kMsNs;
// The connection file may lie on a file system that many clients share.
constexpr std::uint64_t kFileReadNs = 1'000 * kMsNs;
// A map younger than this may call a node down without being asked again.
constexpr std::uint64_t kMapFreshNs = 250 * kMsNs;

bool IsFinal(StatusCode code) {
  return code == StatusCode::kUnauthenticated || code == StatusCode::kPermissionDenied ||
         code == StatusCode::kInvalidArgument || code == StatusCode::kUnimplemented;
}

}  // namespace

NodeSession& Engine::SessionOf(NodeId node, Traffic traffic) {
  const std::size_t index = SessionIndex(node, traffic);
  if (sessions_.size() <= index) sessions_.resize(index + 1);
  auto& session = sessions_[index];
  if (session == nullptr) {
    session = std::make_unique<NodeSession>(*this, node);
    if (map_ != nullptr && node.value() < map_->nodes.size()) {
      session->OnMap(map_->nodes[node.value()]);
    }
  }
  return *session;
}

NodeSession* Engine::FindSession(NodeId node, Traffic traffic) const {
  const std::size_t index = SessionIndex(node, traffic);
  return index < sessions_.size() ? sessions_[index].get() : nullptr;
}

void Engine::WantMap(Epoch at_least) {
  map_at_least_ = std::max(map_at_least_, at_least);
  map_wanted_ = true;
  ScheduleMaintenance();
}

void Engine::WantAttach(NodeSession* session) {
  // A node that the map calls down is not knocked at: its operations fail, or wait for the map.
  if (session->attach_wanted || session->node_down() || closed_.load()) return;
  session->attach_wanted = true;
  ScheduleMaintenance();
}

// When the next duty is due: 0 is now.
void Engine::ScheduleMaintenance() {
  const std::uint64_t now_ns = Now();
  next_maintenance_ns_ = ~0ull;
  const auto at = [&](std::uint64_t not_before_ns) {
    next_maintenance_ns_ =
        std::min(next_maintenance_ns_, not_before_ns <= now_ns ? 0 : not_before_ns);
  };
  if (map_wanted_ && !map_running_) at(map_not_before_ns_);
  for (const auto& session : sessions_) {
    if (session != nullptr && session->attach_wanted && !session->attach_running) {
      at(session->attach_not_before_ns);
    }
  }
  WakeLeaderBefore(next_maintenance_ns_);
}

bool Engine::RunMaintenance(Lock& lock, std::uint64_t now_ns, std::uint64_t until_ns) {
  if (map_wanted_ && !map_running_ && map_not_before_ns_ <= now_ns) {
    RunMapMaintenance(lock, until_ns);
    return true;
  }
  for (const auto& session : sessions_) {
    if (session == nullptr || !session->attach_wanted || session->attach_running ||
        session->attach_not_before_ns > now_ns) {
      continue;
    }
    RunAttachMaintenance(lock, session.get(), until_ns);
    return true;
  }
  ScheduleMaintenance();
  return false;
}

void Engine::RunMapMaintenance(Lock& lock, std::uint64_t until_ns) {
  map_running_ = true;
  const Epoch at_least = map_at_least_;
  ScheduleMaintenance();
  if (!leading_) Appoint();
  lock.Release();
  const Status status = RefreshMap(at_least, Deadline(std::min(until_ns, Now() + kAttemptNs)));
  lock.Acquire();
  map_running_ = false;
  if (status.ok() && epoch() >= map_at_least_) {
    map_wanted_ = false;
    map_at_least_ = Epoch();
  } else {
    map_not_before_ns_ = Now() + kMapRetryNs;
    // No node can report that the node is back, so the last map holds.
    map_checked_ns_ = Now();
  }
  if (down_waiting_) FailDown();
  ScheduleMaintenance();
}

void Engine::RunAttachMaintenance(Lock& lock, NodeSession* session, std::uint64_t until_ns) {
  session->attach_running = true;
  const std::string address = session->control_address();
  const AttachRequest request =
      session->MakeAttachRequest(worker_->Address(), options_, ++attaches_);
  ScheduleMaintenance();
  if (!leading_) Appoint();
  lock.Release();
  Result<AttachReply> reply =
      control_->Attach(address, request, Deadline(std::min(until_ns, Now() + kAttemptNs)));
  lock.Acquire();
  session->attach_running = false;
  const std::uint64_t now_ns = Now();
  if (reply.ok() && !session->node_down() && !closed_.load()) {
    ++stats_.attaches;
    session->attach_wanted = false;
    sessions_by_id_.erase(session->id().value());
    sessions_by_id_[reply->session.value()] = session;
    session->OnAttached(*reply, now_ns);
  } else if (!reply.ok()) {
    session->OnAttachFailed(reply.status(), now_ns);
    if (IsFinal(reply.code())) {
      session->attach_wanted = false;
      ForEachSpace([&](SpaceState* space) {
        for (PartitionQueue& queue : space->queues) {
          if (&queue.link->session() == session) {
            FailQueue(&queue, reply.code(), reply.status().what());
          }
        }
      });
    } else {
      WantMap(Epoch());  // Perhaps it is known to be down.
    }
  }
  ScheduleMaintenance();
}

std::vector<std::string> Engine::Addresses() const {
  const Lock lock(*this);
  std::vector<std::string> addresses;
  const auto add = [&](const std::string& address) {
    if (!address.empty() &&
        std::find(addresses.begin(), addresses.end(), address) == addresses.end()) {
      addresses.push_back(address);
    }
  };
  add(last_good_address_);
  for (const std::string& address : file_addresses_) add(address);
  if (map_ != nullptr) {
    for (const placement::Node& node : map_->nodes) {
      if (node.state == placement::NodeState::kUp) add(node.control_address);
    }
  }
  for (const std::string& address : options_.addresses) add(address);
  return addresses;
}

bool Engine::RereadAddresses() {
  std::string cluster_uuid;
  {
    const Lock lock(*this);
    const std::uint64_t now_ns = Now();
    if (options_.cluster_file.empty() || map_ == nullptr) return false;
    if (file_read_ns_ != 0 && now_ns < file_read_ns_ + kFileReadNs) return false;
    file_read_ns_ = now_ns;
    cluster_uuid = map_->cluster_uuid;
  }
  const auto file = cluster_file::Read(options_.cluster_file);
  if (!file.ok() || file->cluster_uuid != cluster_uuid) return false;
  std::vector<std::string> addresses;
  for (const auto& node : file->nodes) addresses.push_back(node.control_address);
  const std::vector<std::string> known = Addresses();
  const Lock lock(*this);
  file_addresses_ = std::move(addresses);
  return std::any_of(file_addresses_.begin(), file_addresses_.end(), [&](const auto& address) {
    return std::find(known.begin(), known.end(), address) == known.end();
  });
}

Status Engine::RefreshMap(Epoch at_least, Deadline deadline) {
  bool answered = false;
  Status status = AskForMap(at_least, deadline, &answered);
  // The next attempt begins with the addresses of the file, even if this attempt has no time left.
  if (!status.ok() && !answered && RereadAddresses() && !deadline.Passed()) {
    status = AskForMap(at_least, deadline, &answered);
  }
  return status;
}

// `*answered`: a node of this cluster answered, with a map that may be too old.
Status Engine::AskForMap(Epoch at_least, Deadline deadline, bool* answered) {
  Status status(StatusCode::kUnavailable, "no node of the cluster is known");
  for (const std::string& address : Addresses()) {
    Epoch known;
    {
      const Lock lock(*this);
      known = epoch();
    }
    Result<placement::PlacementDelta> delta =
        control_->GetMap(address, known, at_least > known ? at_least : Epoch(), deadline);
    const Lock lock(*this);
    ++stats_.map_refreshes;
    if (delta.ok() && map_ != nullptr && delta->changes.cluster_uuid != map_->cluster_uuid) {
      status = Status(StatusCode::kUnavailable,
                      "another cluster answers at " + address + "; this client's is gone",
                      "connect again");
    } else if (delta.ok()) {
      last_good_address_ = address;
      *answered = true;
      ApplyMap(*delta);
      if (epoch() >= at_least) return {};
      status = Status(StatusCode::kDeadlineExceeded,
                      "the map at " + address + " is of epoch " + std::to_string(epoch().value()) +
                          ", and " + std::to_string(at_least.value()) + " is needed");
    } else {
      if (last_good_address_ == address) last_good_address_.clear();
      status = delta.status();
    }
    if (deadline.Passed()) break;
  }
  return status;
}

void Engine::ApplyMap(const placement::PlacementDelta& delta) {
  map_checked_ns_ = Now();
  placement::PlacementMapPtr next = placement::Apply(map_, delta);
  if (next != nullptr && next != map_) {
    map_ = std::move(next);
    epoch_hint_.store(map_->epoch.value(), std::memory_order_relaxed);
    for (const placement::Node& node : map_->nodes) {
      SessionOf(node.id, Traffic::kPrompt).OnMap(node);
      for (const Traffic traffic : {Traffic::kWaiting, Traffic::kForwarded}) {
        NodeSession* session = FindSession(node.id, traffic);
        if (session != nullptr) session->OnMap(node);
      }
    }
    ForEachSpace([this](SpaceState* space) { UpdateSpace(space); });
  }
  if (down_waiting_) FailDown();
}

void Engine::UpdateSpace(SpaceState* space) {
  if (space->traffic == Traffic::kForwarded) return UpdateForwarded(space);
  const auto found = map_->Find(space->id);
  if (found != nullptr && found->ranges != nullptr) UpdateRanges(space, *found);
  if (found == nullptr || found->partitions.size() != space->queues.size()) return Drop(space);
  for (std::size_t i = 0; i < space->queues.size(); ++i) {
    PartitionQueue& queue = space->queues[i];
    const placement::PartitionPlace& place = found->partitions[i];
    queue.term = place.term;
    queue.state = place.state;
    PlaceQueue(&queue, &SessionOf(place.node, space->traffic).Link(place.core));
  }
  for (PartitionQueue& queue : space->queues) {
    if (std::exchange(queue.is_split, false)) MoveMisrouted(&queue);
  }
}

// Forwarded operations all go to one core of the aggregator's node; clients differ in the core.
// After the first operation they go to that node until it is down.
void Engine::UpdateForwarded(SpaceState* space) {
  if (map_->Find(space->id) == nullptr) return Drop(space);
  const CoreLink* now = space->queues[0].link;
  const placement::Node* node = now == nullptr ? nullptr : map_->FindNode(now->session().node());
  const bool moves = node == nullptr || node->state != placement::NodeState::kUp;
  if (moves && FindAggregatorNode() != nullptr) node = FindAggregatorNode();
  const auto core = static_cast<std::uint16_t>(next_lane_.load() % std::max(1u, node->cores));
  CoreLink* link = &SessionOf(node->id, Traffic::kForwarded).Link(CoreId(core));
  for (PartitionQueue& queue : space->queues) {
    queue.state = placement::PartitionState::kActive;
    // Operations that were sent to the old node are not overtaken.
    if (queue.link != link) queue.term = Term(queue.term.value() + 1);
    PlaceQueue(&queue, link);
  }
}

void Engine::Drop(SpaceState* space) {
  space->dropped = true;
  for (PartitionQueue& queue : space->queues) {
    FailQueue(&queue, StatusCode::kNotFound, "the namespace was dropped");
  }
}

void Engine::PlaceQueue(PartitionQueue* queue, CoreLink* link) {
  if (queue->link == link) {
    link->MakeReady(queue);
  } else {
    if (queue->link != nullptr) queue->link->Leave(queue);
    link->Adopt(queue);
  }
  if (IsDown(*queue) && !queue->waiting.empty()) down_waiting_ = true;
}

const placement::Node* Engine::FindAggregatorNode() const {
  if (map_ == nullptr) return nullptr;
  const auto found = std::find_if(map_->nodes.begin(), map_->nodes.end(), [this](const auto& node) {
    return node.state == placement::NodeState::kUp && node.host == host_;
  });
  return found == map_->nodes.end() ? nullptr : &*found;
}

std::optional<NodeId> Engine::AggregatorNode() const {
  const Lock lock(*this);
  const placement::Node* node = FindAggregatorNode();
  return node == nullptr ? std::nullopt : std::optional(node->id);
}

SpaceState* Engine::FindSpace(NamespaceId id, Traffic traffic) {
  const Lock lock(*this);
  auto& spaces = spaces_[static_cast<std::size_t>(traffic)];
  auto& space = spaces[id];
  if (space != nullptr) return space.get();
  const auto found = map_ == nullptr ? nullptr : map_->Find(id);
  const bool forwarded = traffic == Traffic::kForwarded;
  if (found == nullptr || (forwarded && FindAggregatorNode() == nullptr)) {
    spaces.erase(id);
    return nullptr;
  }
  space = std::make_unique<SpaceState>();
  space->id = id;
  space->traffic = traffic;
  space->name = found->name;
  space->kind = found->kind;
  space->options = found->options;
  const bool ordered = found->kind == placement::Kind::kOrdered;
  const bool grows = ordered && !forwarded;
  const auto partitions =
      ordered && forwarded ? 1 : static_cast<std::uint32_t>(found->partitions.size());
  space->queues.Make(partitions, grows ? limits::kPartitionsPerNamespaceMax : partitions);
  for (std::uint32_t i = 0; i < space->queues.size(); ++i) {
    space->queues[i].id = PartitionId(id, i);
    space->queues[i].space = space.get();
  }
  const bool shown =
      found->kind == placement::Kind::kHash || ordered || found->kind == placement::Kind::kBloom;
  if (shown && traffic == Traffic::kPrompt) {
    space->direct =
        std::make_unique<DirectSpace>(id, ordered ? limits::kPartitionsPerNamespaceMax : partitions,
                                      unanswered_, *options_.clock, read_counts_->shared());
  }
  UpdateSpace(space.get());
  return space.get();
}

SpaceState* Engine::FindSpace(std::string_view name) {
  const placement::PlacementMapPtr now = map();
  const auto found = now == nullptr ? nullptr : now->Find(name);
  return found == nullptr ? nullptr : FindSpace(found->id);
}

bool Engine::IsDown(const PartitionQueue& queue) const {
  return queue.state != placement::PartitionState::kActive || queue.link->session().node_down();
}

// Ends operations for partitions without a serving owner, if the map is fresh. Otherwise requests a
// fresh map first.
void Engine::FailDown() {
  if (Now() > map_checked_ns_ + kMapFreshNs) return WantMap(Epoch());
  down_waiting_ = false;
  ForEachSpace([this](SpaceState* space) {
    for (PartitionQueue& queue : space->queues) {
      if (queue.waiting.empty() || !IsDown(queue)) continue;
      if (queue.state == placement::PartitionState::kLost) {
        FailQueue(&queue, StatusCode::kDataLoss, "the owner came back without its data");
      } else {
        FailQueue(&queue, StatusCode::kUnavailable, queue.link->session().Describe() + " is down");
      }
    }
  });
}

void Engine::FailQueue(PartitionQueue* queue, StatusCode code, std::string_view text) {
  while (!queue->waiting.empty()) {
    Operation* operation = queue->waiting.front();
    queue->link->Unqueue(operation);
    End(operation, Explain(*operation, code, text));
  }
}

}  // namespace tidepool::internal
