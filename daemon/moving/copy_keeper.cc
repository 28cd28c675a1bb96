#include "daemon/moving/copy_keeper.h"

#include <chrono>
#include <set>
#include <string>
#include <utility>

#include "daemon/copies/copy_alarms.h"
#include "daemon/moving/copy_mover.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/thread.h"

namespace tidepool::daemon {
namespace {

using KeptStage = CopyJob::Stage;

// While there are copies; a look costs a few loads per copy.
constexpr std::uint64_t kLookMs = 5;
constexpr std::uint64_t kIdleLookMs = 200;
constexpr std::uint64_t kKeeperAskMs = 1'000;
constexpr std::uint64_t kKeeperAgainNs = 20'000'000;
// A target that has just started may not have the map that names it.
constexpr int kBeginTries = 50;
// So long a copy whose link broke may turn out to have ended with its process.
constexpr std::uint64_t kBrokenLinkNs = 200'000'000;
// A killed owner's key goes within milliseconds; a cut link may stay cut.
constexpr std::uint64_t kAlarmFirstNs = 2'000'000'000;
constexpr std::uint64_t kAlarmSlowNs = 500'000'000;

std::uint64_t KeeperNowNs() { return Clock::Real().MonotonicNs(); }

bool HasReplicas(const placement::PlacementMap& map) {
  for (const auto& [id, space] : map.namespaces) {
    if (space->options.replicas > 1) return true;
  }
  return false;
}

}  // namespace

CopyKeeper::~CopyKeeper() { Stop(); }

Status CopyKeeper::Start() {
  return StartThread("copies", &thread_, [this] { Run(); });
}

void CopyKeeper::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool CopyKeeper::SleepMs(std::uint64_t ms) {
  std::unique_lock lock(mutex_);
  return !wake_.wait_for(lock, std::chrono::milliseconds(ms), [this] { return stopping_; });
}

void CopyKeeper::Run() {
  for (;;) {
    const placement::PlacementMapPtr map = node_.map.Get();
    const bool has_replicas = HasReplicas(*map);
    if (has_replicas) {
      TellOfOwners(*map);
      Look(FindKept(*map));
    } else {
      fillings_.clear();
    }
    if (!SleepMs(has_replicas ? kLookMs : kIdleLookMs)) return;
  }
}

std::vector<CopyKeeper::Kept> CopyKeeper::FindKept(const placement::PlacementMap& map) const {
  std::vector<Kept> kept;
  const NodeId self = node_.self();
  for (const auto& [id, space] : map.namespaces) {
    if (space->options.replicas <= 1) continue;
    for (std::uint32_t i = 0; i < space->partitions.size(); ++i) {
      const placement::PartitionPlace& place = space->partitions[i];
      if (place.node != self || place.state != placement::PartitionState::kActive) continue;
      for (const placement::CopyPlace& copy : place.copies) {
        kept.push_back({PartitionId(id, i), place, copy});
      }
    }
  }
  return kept;
}

void CopyKeeper::Look(const std::vector<Kept>& kept) {
  Fillings before = std::exchange(fillings_, {});
  for (const Kept& each : kept) {
    const auto found = before.find(each.key());
    if (found != before.end()) fillings_[each.key()] = std::move(found->second);
  }
  // What has failed holds answers back, so it comes first.
  for (const bool failed : {true, false}) {
    for (const Kept& each : kept) {
      Filling& filling = fillings_[each.key()];
      const bool has_failed =
          filling.job != nullptr && filling.job->stage.load() == KeptStage::kFailed;
      if (has_failed == failed && KeeperNowNs() >= filling.not_before_ns) See(each, &filling);
    }
  }
}

void CopyKeeper::See(const Kept& kept, Filling* filling) {
  if (filling->job == nullptr) {
    // An in-sync copy that is not filled from here cannot be counted on.
    return kept.copy.in_sync ? Drop(kept, filling) : Begin(kept, filling);
  }
  switch (filling->job->stage.load()) {
    case KeptStage::kFailed:
      return Drop(kept, filling);
    case KeptStage::kCaughtUp:
      if (!kept.copy.in_sync) Ask(kept, v1::EntryStep::WHAT_ADMIT, filling);
      return;
    default:
      return;
  }
}

void CopyKeeper::Begin(const Kept& kept, Filling* filling) {
  const placement::PlacementMapPtr map = node_.map.Get();
  const placement::Node* const target = map->FindNode(kept.copy.node);
  if (target == nullptr || target->incarnation != kept.copy.incarnation) return;
  const CopyPlan plan{kept.partition,
                      kept.place.term,
                      kept.copy.since,
                      kept.place.core,
                      kept.copy.core,
                      *target,
                      true};
  const Status begun = BeginCopy(&node_, plan, &filling->job);
  if (begun.ok()) return;
  filling->job = nullptr;
  filling->not_before_ns = KeeperNowNs() + kKeeperAgainNs;
  if (++filling->tries < kBeginTries && begun != StatusCode::kResourceExhausted) return;
  log::Warn("no copy of partition " + std::to_string(kept.partition.index()) + " of namespace " +
            std::to_string(kept.partition.space().value()) + " on " + NodeText(*target) + ": " +
            begun.ToString());
  Drop(kept, filling);
}

// A copy whose process has ended goes with all others of its node, in one change.
void CopyKeeper::Drop(const Kept& kept, Filling* filling) {
  Suspect(kept.copy.node, kept.copy.incarnation);
  const placement::PlacementMapPtr map = node_.map.Get();
  const placement::PartitionPlace* const place = map->Find(kept.partition);
  if (place == nullptr || place->version != kept.place.version) return;
  const std::uint64_t now_ns = KeeperNowNs();
  if (filling->failed_ns == 0) filling->failed_ns = now_ns;
  const bool link_broke =
      filling->job != nullptr && filling->job->code.load() == StatusCode::kUnavailable;
  if (link_broke && now_ns < filling->failed_ns + kBrokenLinkNs) {
    filling->not_before_ns = now_ns + kKeeperAgainNs;
    return;
  }
  Ask(kept, v1::EntryStep::WHAT_DROP, filling);
}

// A refusal because of another version needs a newer map, which the next look goes by.
void CopyKeeper::Ask(const Kept& kept, v1::EntryStep::What what, Filling* filling) {
  v1::ChangePartitionRequest request;
  request.set_namespace_id(kept.partition.space().value());
  request.set_partition(kept.partition.index());
  request.set_term(kept.place.term.value());
  request.set_version(kept.place.version);
  v1::EntryStep* const step = request.add_steps();
  step->set_what(what);
  step->set_node_id(kept.copy.node.value());
  step->set_incarnation(kept.copy.incarnation);
  const auto answer =
      node_.member.load()->ChangePartition(request, Deadline::AfterMs(kKeeperAskMs));
  if (answer.ok()) node_.member.load()->Sync(Deadline::AfterMs(kKeeperAskMs));
  if (!answer.ok() || !answer->changed()) filling->not_before_ns = KeeperNowNs() + kKeeperAgainNs;
}

void CopyKeeper::TellOfOwners(const placement::PlacementMap& map) {
  const std::uint64_t now_ns = KeeperNowNs();
  const std::set<NodeId> raised = node_.cores->copy_alarms().Take();
  std::erase_if(alarms_, [&](const auto& alarm) { return !raised.contains(alarm.first); });
  for (const NodeId id : raised) {
    const placement::Node* const owner = map.FindNode(id);
    if (owner == nullptr || owner->state != placement::NodeState::kUp) continue;
    Alarm& alarm = alarms_[id];
    if (alarm.first_ns == 0) alarm.first_ns = now_ns;
    if (now_ns < alarm.not_before_ns) continue;
    const bool is_new = now_ns < alarm.first_ns + kAlarmFirstNs;
    alarm.not_before_ns = now_ns + (is_new ? kKeeperAgainNs : kAlarmSlowNs);
    Suspect(id, owner->incarnation);
  }
}

void CopyKeeper::Suspect(NodeId node, std::uint64_t incarnation) {
  v1::ChangePartitionRequest request;
  v1::EntryStep* const step = request.add_steps();
  step->set_what(v1::EntryStep::WHAT_SUSPECT);
  step->set_node_id(node.value());
  step->set_incarnation(incarnation);
  const auto answer =
      node_.member.load()->ChangePartition(request, Deadline::AfterMs(kKeeperAskMs));
  if (answer.ok()) node_.member.load()->Sync(Deadline::AfterMs(kKeeperAskMs));
}

}  // namespace tidepool::daemon
