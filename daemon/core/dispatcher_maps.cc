// Maps and time: groups that wait for a map or for the end of a freeze, and expiry of deadlines and
// sessions.
#include <algorithm>
#include <string_view>
#include <utility>

#include "daemon/core/dispatcher.h"

namespace tidepool::daemon {

Status Dispatcher::InstallMap(placement::PlacementMapPtr map, NodeId self, bool may_grant_durable) {
  meter_.metrics().Forget([&map](NamespaceId space) { return map->Find(space) == nullptr; });
  const Status status = ownership_.Install(std::move(map), self, may_grant_durable);
  // Before anything runs: a range that has left must be in its stream to the last change.
  range_moves_->OnMap();
  copies_.OnMap(*ownership_.map(), ownership_.self());
  waiting_.RecheckIo();
  RetryMapWaiters();
  // Answers waiters on partitions that are gone or have moved.
  waiting_.RecheckEvents();
  return status;
}

void Dispatcher::Thaw(PartitionId partition, Term term) {
  if (!ownership_.Thaw(partition, term)) return;
  // Runs everything at once, so that later arrivals do not overtake waiting groups.
  waiting_.RecheckIo();
  RetryMapWaiters();
  // Waits for items and changes, and for groups that were broken meanwhile.
  waiting_.RecheckEvents();
}

void Dispatcher::EndImport(PartitionId partition) {
  if (!ownership_.EndImport(partition)) return;
  RetryMapWaiters();
  waiting_.Wake(partition);
}

// Runs or ends the groups that need not wait any more.
void Dispatcher::RetryMapWaiters() {
  map_waiters_.Retry([this](const MapWaiter& waiter) {
    if (sessions_->Find(waiter.session) == nullptr) return false;
    const Verdict::Kind kind = ownership_.Check(waiter.partition, waiter.term).kind;
    if (kind == Verdict::Kind::kWait || kind == Verdict::Kind::kHold) return true;
    Resume(waiter, StatusCode::kOk);
    return false;
  });
}

void Dispatcher::Resume(const MapWaiter& waiter, StatusCode code) {
  Session* session = sessions_->Find(waiter.session);
  if (session == nullptr) return;
  session->waiting_operations -= waiter.credit;
  CachedReply* kept = session->kept.Find(waiter.frame_id);
  // Given up by the client: its deadline has passed and ack_watermark has gone by.
  if (kept == nullptr || !wire::DecodeRequest(*waiter.frame, &at_hand_.request).ok()) return;
  kept->fates[waiter.group] = GroupFate::kUnseen;
  // A returning client sends the group again, or has given it up; a client that stays away must not
  // have items removed for it.
  if (code == StatusCode::kOk && session->endpoint == nullptr) return;
  // Subtracts the time already waited: a pop must not wait on after its client has given it up.
  const std::uint64_t now_ns = clock_.MonotonicNs();
  const std::uint64_t left_ns = waiter.deadline_ns > now_ns ? waiter.deadline_ns - now_ns : 0;
  at_hand_.request.header.time_left_us = static_cast<std::uint32_t>(left_ns / 1'000);
  if (left_ns == 0 && code == StatusCode::kOk) code = StatusCode::kDeadlineExceeded;
  AnswerSink sink =
      responder_.SinkFor(*session, waiter.frame_id, at_hand_.request.header.reply_bytes_max);
  Reception to{*session, waiter.frame_id, now_ns, kept, sink};
  at_hand_.plan.clear();
  meter_.metrics().BeginFrame();
  at_hand_.copy = waiter.frame;
  at_hand_.held = waiter.held;
  if (code != StatusCode::kOk) {
    EndGroup(waiter.group, code, to);
  } else {
    DispatchGroup(waiter.group, *waiter.frame, to);
  }
  RunPlan(to);
  PostAnswers(to);
  waiting_.WakeAfterPlan(at_hand_.plan);
}

std::uint64_t Dispatcher::NextDeadlineNs() const {
  return std::min(waiting_.NextDeadlineNs(), map_waiters_.NextDeadlineNs());
}

void Dispatcher::CountDirectReads() {
  sessions_->ForEach([this](Session& session) { meter_.CountDirectReads(session); });
}

void Dispatcher::OnTimer(std::uint64_t now_ns) {
  map_waiters_.Retry([this, now_ns](const MapWaiter& waiter) {
    // Up to the session's whole credit, and its client's deadline may be an hour away.
    if (sessions_->Find(waiter.session) == nullptr) return false;
    if (now_ns < waiter.deadline_ns) return true;
    Resume(waiter, StatusCode::kDeadlineExceeded);
    return false;
  });
  waiting_.OnTimer(now_ns);
  copies_.OnTimer(now_ns);
  for (const ProcessGroups::Name& group :
       runner_.groups().CheckSuspects(now_ns, [this](SessionId id) {
         const Session* session = sessions_->Find(id);
         return session != nullptr && session->endpoint != nullptr;
       })) {
    runner_.groups_to_wake().push_back(group);
  }
  waiting_.WakeGroups();
  // A walk over all sessions, for a limit of a minute: once a second.
  if (now_ns < next_expiry_ns_) return;
  next_expiry_ns_ = now_ns + 1'000'000'000;
  meter_.metrics().OnTimer(now_ns);
  pool_.Trim();
  CountDirectReads();
  sessions_->OnTimer(now_ns);
  waiting_.RecheckEvents();
}

unsigned Dispatcher::PollDevices() {
  unsigned done = store_.Poll();
  if (!responder_.commit_waiters().empty()) [[unlikely]]
    done += responder_.ReleaseDurable();
  if (!responder_.copy_waiters().empty() && copies_seen_ != copies_.progress()) [[unlikely]] {
    copies_seen_ = copies_.progress();
    done += responder_.ReleaseCopied();
  }
  if (waiting_.waits_for_room()) [[unlikely]]
    done += waiting_.ServeRoom();
  return done;
}

}  // namespace tidepool::daemon
