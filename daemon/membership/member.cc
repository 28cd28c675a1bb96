#include "daemon/membership/member.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "proto/base/log.h"
#include "proto/base/thread.h"
#include "proto/convert/placement_convert.h"

namespace tidepool::daemon {
namespace {

// One long poll. Not longer, so that a coordinator that is cut off without a word is noticed.
// One more than the coordinator allows the others: nobody takes over here, so haste gains nothing.
constexpr std::uint64_t kSilentLeases = 2;
constexpr std::uint64_t kMapPollMs = 20'000;
constexpr std::uint64_t kRefreshMs = 200;
constexpr std::uint64_t kRetryFirstMs = 50;
constexpr std::uint64_t kRetryLongestMs = 1000;

bool CannotBeReached(const Status& status) {
  return status == StatusCode::kUnavailable || status == StatusCode::kDeadlineExceeded ||
         status == StatusCode::kCancelled;
}

bool IsFinal(const Status& status) {
  return status == StatusCode::kFailedPrecondition || status == StatusCode::kNotFound;
}

}  // namespace

Member::Member(CoordinatorLink* link, Lease* lease, MapHolder* map, MemberCallbacks callbacks)
    : link_(*link), lease_(*lease), map_(*map), callbacks_(std::move(callbacks)) {}

Member::~Member() { Stop(); }

bool Member::SleepMs(std::uint64_t ms) {
  std::unique_lock lock(stop_mutex_);
  return !stop_wake_.wait_for(lock, std::chrono::milliseconds(ms), [this] { return stopping_; });
}

Result<NodeId> Member::Join(const v1::JoinRequest& request, Deadline deadline) {
  std::uint64_t pause_ms = kRetryFirstMs;
  while (true) {
    const std::uint64_t sent_ns = Clock::Real().MonotonicNs();
    // Each try is bounded, so that a coordinator that is still starting is asked again.
    const Deadline this_try(std::min(deadline.at_ns(), Deadline::AfterMs(5000).at_ns()));
    auto joined = link_.Join(request, this_try);
    if (joined.ok()) {
      self_ = NodeId(static_cast<std::uint16_t>(joined->node_id()));
      incarnation_ = request.incarnation();
      lease_ms_ = joined->lease_ms();
      heartbeat_ms_ = std::max<std::uint64_t>(joined->heartbeat_ms(), 1);
      TP_RETURN_IF_ERROR(Install(joined->map()));
      OnAnswered(sent_ns, lease_ms_);
      return self_;
    }
    // Unknown: it may be a member already, which a coordinator that is asked again then says.
    const bool may_pass = CannotBeReached(joined.status()) || joined.code() == StatusCode::kUnknown;
    if (!may_pass) return joined.status();
    if (deadline.Passed()) {
      return Status(joined.code(), "could not join: " + std::string(joined.status().what()),
                    "is the first node up, and can this host reach it?");
    }
    if (!SleepMs(pause_ms)) return Status(StatusCode::kCancelled, "stopped while joining");
    pause_ms = std::min(2 * pause_ms, kRetryLongestMs);
  }
}

Status Member::Install(const v1::PlacementMap& message) {
  auto delta = convert::FromProto(message);
  if (!delta.ok()) return delta.status();
  const std::lock_guard lock(install_mutex_);
  const placement::PlacementMapPtr base = map_.Get();
  const placement::PlacementMapPtr next = placement::Apply(base, *delta);
  if (next == nullptr) {
    return Status(StatusCode::kAborted,
                  "the placement map's delta starts behind what is known here");
  }
  if (next == base) return OkStatus();
  const Status installed = callbacks_.install(next, self_);
  if (!installed.ok()) {
    // The cores get there, or answer for what they could not open; others must hear of the map.
    log::Warn("placement map of epoch " + std::to_string(next->epoch.value()) + ": " +
              installed.ToString());
  }
  map_.Set(next);
  return OkStatus();
}

void Member::OnAnswered(std::uint64_t sent_ns, std::uint64_t lease_ms) {
  if (callbacks_.answered) return callbacks_.answered(sent_ns);
  lease_.ExtendTo(sent_ns + lease_ms * 1'000'000);
}

Status Member::CheckCoordinator(const placement::Node& coordinator) const {
  const std::uint64_t silent_ms = (Clock::Real().MonotonicNs() - heard_ns_.load()) / 1'000'000;
  if (silent_ms <= kSilentLeases * lease_ms_) return OkStatus();
  return Status(StatusCode::kUnavailable,
                "the coordinator, node " + std::to_string(coordinator.id.value()) + " (" +
                    coordinator.host + ", " + coordinator.control_address +
                    "), has not answered for " + std::to_string(silent_ms / 1'000) + " s",
                callbacks_.answered ? "another one is elected while etcd is up; see: kvctl status"
                                    : "restart it there, or see: kvctl status");
}

Status Member::Start() {
  heard_ns_ = Clock::Real().MonotonicNs();
  TP_RETURN_IF_ERROR(StartThread("heartbeats", &heartbeats_, [this] { RunHeartbeats(); }));
  return StartThread("placement maps", &maps_, [this] { RunMaps(); });
}

void Member::Interrupt() {
  {
    const std::lock_guard lock(stop_mutex_);
    stopping_ = true;
  }
  stop_wake_.notify_all();
  link_.Close();
}

void Member::Stop() {
  Interrupt();
  if (heartbeats_.joinable()) heartbeats_.join();
  if (maps_.joinable()) maps_.join();
}

void Member::SendHeartbeat() {
  v1::HeartbeatRequest request;
  request.set_node_id(self_.value());
  request.set_incarnation(incarnation_);
  request.set_known_epoch(map_.Get()->epoch.value());
  for (const std::uint64_t loops : callbacks_.progress()) request.add_core_progress(loops);
  const std::uint64_t sent_ns = Clock::Real().MonotonicNs();
  // A third of the lease: the answer or the self-extension then comes in time.
  auto answer = link_.Heartbeat(request, Deadline::AfterMs(lease_ms_ / 3));
  if (answer.ok()) {
    if (!callbacks_.answered) OnAnswered(sent_ns, answer->lease_ms());
    heard_ns_ = sent_ns;
    if (!is_reached_) log::Info("the coordinator is reached again");
    is_reached_ = true;
    if (answer->has_map()) {
      const Status installed = Install(answer->map());
      if (!installed.ok()) {
        log::Warn(installed.ToString());
        if (callbacks_.answered) return;
      }
    }
    // Where the answer is what lets the node serve again, not before its map is here.
    if (callbacks_.answered) OnAnswered(sent_ns, answer->lease_ms());
    return;
  }
  if (IsFinal(answer.status())) {
    lease_.Revoke();
    is_fenced_ = true;
    log::Error("this node may not serve any more: " + answer.status().ToString());
    callbacks_.fenced(answer.status());
    return;
  }
  if (is_reached_) {
    log::Warn(std::string("the coordinator cannot be reached; this node goes on serving") +
              (callbacks_.answered ? " while etcd renews its lease: " : ": ") +
              answer.status().ToString());
  }
  is_reached_ = false;
  if (callbacks_.answered) return;
  lease_.ExtendTo(Clock::Real().MonotonicNs() + lease_ms_ * 1'000'000);
}

void Member::RunHeartbeats() {
  do {
    SendHeartbeat();
  } while (!is_fenced_ && SleepMs(heartbeat_ms_));
}

void Member::RunMaps() {
  std::uint64_t pause_ms = kRetryFirstMs;
  while (true) {
    const Epoch known = map_.Get()->epoch;
    const Epoch next(known.value() + 1);
    auto map = link_.GetMap(known, next, Deadline::AfterMs(kMapPollMs));
    Status status = map.ok() ? Install(*map) : map.status();
    if (status == StatusCode::kAborted) {
      map = link_.GetMap(Epoch(0), Epoch(0), Deadline::AfterMs(kMapPollMs));
      status = map.ok() ? Install(*map) : map.status();
    }
    // A poll that ended without a change is asked again at once, but for a link that is closed.
    pause_ms = status.ok() ? kRetryFirstMs : std::min(2 * pause_ms, kRetryLongestMs);
    const bool is_new = map_.Get()->epoch > known;
    if (!SleepMs(is_new ? 0 : pause_ms)) return;
  }
}

Status Member::Leave(const std::vector<NamespaceId>& empty_namespaces, Deadline deadline) {
  v1::LeaveRequest request;
  request.set_node_id(self_.value());
  request.set_incarnation(incarnation_);
  lease_.Revoke();
  for (const NamespaceId id : empty_namespaces) request.add_empty_namespaces(id.value());
  return link_.Leave(request, deadline);
}

void Member::Refresh(Epoch known, Deadline deadline) {
  const Epoch here = map_.Get()->epoch;
  if (here > known) return;
  const Deadline soon(std::min(deadline.at_ns(), Deadline::AfterMs(kRefreshMs).at_ns()));
  auto map = link_.GetMap(here, Epoch(known.value() + 1), soon);
  if (!map.ok()) return;
  const Status installed = Install(*map);
  if (!installed.ok()) log::Warn(installed.ToString());
}

void Member::Sync(Deadline deadline) {
  auto map = link_.GetMap(map_.Get()->epoch, Epoch(0), deadline);
  if (!map.ok()) return;
  const Status installed = Install(*map);
  if (!installed.ok()) log::Warn(installed.ToString());
}

}  // namespace tidepool::daemon
