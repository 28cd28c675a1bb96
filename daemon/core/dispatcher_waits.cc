// What cannot be answered at once: operations that wait for an item, room or a change, and groups
// that wait for a map or for the end of a freeze.
#include <algorithm>
#include <string_view>
#include <utility>

#include "daemon/core/dispatcher.h"

namespace tidepool::daemon {

// ---- Operations that wait.

// Its own bytes are within the session's credit, as those of all frames that are not answered are.
// The memory of a streamed value is the store's, and bounded there.
bool Dispatcher::MaySuspend(const Session& session, const wire::Operation& operation) const {
  return operation.has(wire::Argument::kWaitMs) && operation.get(wire::Argument::kWaitMs) > 0 &&
         session.event_waiters < limits::kEventWaitersPerSessionMax &&
         session.event_waiter_bytes + operation.key.size() + operation.value.size() <=
             session.credit_bytes;
}

// All but what it waits for, and until when.
EventWaiter Dispatcher::MakeEventWaiter(const Planned& planned, Reception& to) {
  const wire::Operation& operation = *planned.operation;
  EventWaiter waiter;
  waiter.partition = planned.partition->id();
  waiter.term = planned.partition->term();
  waiter.hash = planned.hash;
  waiter.CopyOperation(operation);
  if (operation.has(wire::Argument::kUpload)) {
    waiter.upload = streams_->TakeUpload(to.session, operation.get(wire::Argument::kUpload));
  }
  waiter.session = to.session.id;
  waiter.frame_id = to.frame_id;
  waiter.reply_bytes_max = ReplyShareOf(planned);
  waiter.index = planned.index;
  waiter.group = planned.group;
  return waiter;
}

// Without its upload.
EventWaiter Dispatcher::CopyOf(const EventWaiter& waiter) {
  EventWaiter copy;
  copy.partition = waiter.partition;
  copy.term = waiter.term;
  copy.hash = waiter.hash;
  copy.CopyOperation(waiter.operation);
  copy.session = waiter.session;
  copy.frame_id = waiter.frame_id;
  copy.reply_bytes_max = waiter.reply_bytes_max;
  copy.index = waiter.index;
  copy.group = waiter.group;
  return copy;
}

void Dispatcher::Suspend(const Planned& planned, WaitFor wait_for, Reception& to) {
  const wire::Operation& operation = *planned.operation;
  auto waiter = std::make_unique<EventWaiter>(MakeEventWaiter(planned, to));
  waiter->wait_for = wait_for;
  const std::uint64_t wait_ms = std::min<std::uint64_t>(
      operation.get(wire::Argument::kWaitMs), at_hand_.request.header.time_left_us / 1'000);
  waiter->deadline_ns = to.received_ns + wait_ms * 1'000'000;
  ++to.session.event_waiters;
  to.session.event_waiter_bytes += waiter->bytes.size();
  event_waiters_.Add(std::move(waiter));
}

// What the answer may take of the frame's allowance: it comes alone, perhaps after all others, and
// if each took the whole, those of one session would be far more than the client has set aside.
// Values that do not fit are streamed.
std::uint32_t Dispatcher::ReplyShareOf(const Planned& planned) const {
  const auto share = at_hand_.request.header.reply_bytes_max / at_hand_.request.operations.size();
  return static_cast<std::uint32_t>(std::max(share, ReplyBytesOf(planned)));
}

void Dispatcher::ForgetEventWaiters(Session& session, const EventWaiter& waiter) {
  --session.event_waiters;
  session.event_waiter_bytes -= waiter.bytes.size();
}

void Dispatcher::Wake(PartitionId partition) {
  if (!event_waiters_.WaitsOn(partition)) return;
  const auto attempt = Attempts();
  event_waiters_.RetryItems(partition, attempt);
  event_waiters_.RetryChanges(partition, attempt);
}

// What the operations of the plan have changed may be what others wait for.
void Dispatcher::WakePlanned() {
  if (event_waiters_.empty()) return;
  const storage::Partition* last = nullptr;
  for (const Planned& planned : at_hand_.plan) {
    WakeAfter(planned, last);
    if (planned.partition->IsOneOf(wire::kItemKinds)) last = planned.partition;
  }
  WakeGroups();
}

// `last`: whose items have just been looked at.
void Dispatcher::WakeAfter(const Planned& planned, const storage::Partition* last) {
  const PartitionId id = planned.partition->id();
  const wire::OpcodeInfo& info = wire::InfoOf(planned.operation->opcode);
  if (!info.mutates || !event_waiters_.WaitsOn(id)) return;
  if (planned.partition->IsOneOf(wire::kItemKinds)) {
    if (planned.partition != last) event_waiters_.RetryItems(id, Attempts());
  } else if (info.keyed && planned.operation->opcode != wire::Opcode::kChain) {
    event_waiters_.RetryKey(id, WaitFor::kChange, planned.hash, Attempts());
  } else {
    event_waiters_.RetryChanges(id, Attempts());
  }
}

void Dispatcher::WakeGroups() {
  // One that is woken may wake others.
  while (!groups_to_wake_.empty()) {
    const ProcessGroups::Name group = groups_to_wake_.back();
    groups_to_wake_.pop_back();
    event_waiters_.RetryKey(group.partition, WaitFor::kGroup, group.hash, Attempts());
  }
}

EventWaiters::Outcome Dispatcher::Attempt(EventWaiter& waiter, bool last) {
  using Outcome = EventWaiters::Outcome;
  const std::uint64_t now_ns = clock_.MonotonicNs();
  Session* session = sessions_->Find(waiter.session);
  if (session == nullptr) return Outcome::kAnswered;  // Nobody is left to be answered.
  const bool connected = session->endpoint != nullptr;
  if (!connected && !last) return Outcome::kSkipped;
  // A lapsed lease serves nobody; its renewal or a new map decides.
  if (!lease_.ValidAt(now_ns)) return Outcome::kWaits;
  const Verdict verdict = ownership_.Check(waiter.partition, waiter.term);
  if (verdict.kind == Verdict::Kind::kHold && !last) return Outcome::kWaits;
  AnswerSink sink = responder_.SinkFor(*session, waiter.frame_id, waiter.reply_bytes_max);
  Reception to{*session, waiter.frame_id, now_ns, session->kept.Find(waiter.frame_id), sink};
  const Planned planned{verdict.partition,  &waiter.operation, waiter.hash,
                        waiter.index,       waiter.group,      false,
                        waiter.upload.get()};
  if (verdict.kind == Verdict::Kind::kRun && connected) {
    const WaitFor wait_for = RunAndAnswer(planned, 0, store_.NowMs(), !last, to);
    if (wait_for == WaitFor::kDevice || wait_for == WaitFor::kMemory) {
      ForgetEventWaiters(*session, waiter);
      ParkEventWaiter(waiter, wait_for, *session);
      return Outcome::kAnswered;
    }
    if (wait_for != WaitFor::kNothing) return Outcome::kWaits;
  } else {
    // Also for one whose client has gone away for the moment: nothing may be taken for it now.
    Reply reply;
    reply.answer.code = StatusCode::kDeadlineExceeded;
    if (verdict.kind == Verdict::Kind::kRefuse) reply.answer.code = verdict.code;
    if (verdict.kind == Verdict::Kind::kWait) reply.answer.code = StatusCode::kWrongEpoch;
    reply.answer.value = verdict.kind == Verdict::Kind::kRun
                             ? AsBytes("the wait ended while the client was not connected")
                             : AsBytes(TextFor(reply.answer.code));
    responder_.Conclude(planned, reply, 0, to);
  }
  ForgetEventWaiters(*session, waiter);
  responder_.PostApplied(to);
  return Outcome::kAnswered;
}

// ---- Maps and time.

Status Dispatcher::InstallMap(placement::PlacementMapPtr map, NodeId self, bool may_grant_durable) {
  meter_.metrics().Forget([&map](NamespaceId space) { return map->Find(space) == nullptr; });
  const Status status = ownership_.Install(std::move(map), self, may_grant_durable);
  // Before anything runs: a range that has left must be in its stream to the last change.
  range_moves_->OnMap();
  RecheckIoWaiters();
  RetryMapWaiters();
  // What waits on partitions that are gone or have moved must be told.
  RecheckEventWaiters();
  return status;
}

void Dispatcher::Thaw(PartitionId partition, Term term) {
  if (!ownership_.Thaw(partition, term)) return;
  // In one go, so that nothing that arrives later comes before what was held back.
  RecheckIoWaiters();
  RetryMapWaiters();
  // Waits for items and changes, and for groups that were broken meanwhile.
  RecheckEventWaiters();
}

void Dispatcher::EndImport(PartitionId partition) {
  if (!ownership_.EndImport(partition)) return;
  RetryMapWaiters();
  Wake(partition);
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

void Dispatcher::RecheckEventWaiters() { event_waiters_.Recheck(Attempts()); }

void Dispatcher::Resume(const MapWaiter& waiter, StatusCode code) {
  Session* session = sessions_->Find(waiter.session);
  if (session == nullptr) return;
  session->waiting_operations -= waiter.credit;
  CachedReply* kept = session->kept.Find(waiter.frame_id);
  // Given up by the client: its deadline has passed and ack_watermark has gone by.
  if (kept == nullptr || !wire::DecodeRequest(*waiter.frame, &at_hand_.request).ok()) return;
  kept->fates[waiter.group] = GroupFate::kUnseen;
  // Whoever comes back sends it again, and may have given it up; for others nothing may be taken.
  if (code == StatusCode::kOk && session->endpoint == nullptr) return;
  // What it has waited is gone: a pop must not wait on for a client that has given it up.
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
  WakePlanned();
}

std::uint64_t Dispatcher::NextDeadlineNs() const {
  return std::min({event_waiters_.next_deadline_ns(), io_waiters_.next_deadline_ns(),
                   map_waiters_.NextDeadlineNs()});
}

void Dispatcher::CountDirectReads() {
  sessions_->ForEach([this](Session& session) { meter_.CountDirectReads(session); });
}

void Dispatcher::OnDirectReads(SessionId session, const storage::Partition& partition,
                               const DirectReads& reads) {
  if (Session* found = sessions_->Find(session); found != nullptr) {
    meter_.AddDirectReads(*found, partition.id().space(), reads);
  }
}

void Dispatcher::OnTimer(std::uint64_t now_ns) {
  map_waiters_.Retry([this, now_ns](const MapWaiter& waiter) {
    // Up to the session's whole credit, and its client's deadline may be an hour away.
    if (sessions_->Find(waiter.session) == nullptr) return false;
    if (now_ns < waiter.deadline_ns) return true;
    Resume(waiter, StatusCode::kDeadlineExceeded);
    return false;
  });
  if (!io_waiters_.empty()) {
    ExpireIoWaiters(now_ns);
    RecheckIoWaiters();
  }
  event_waiters_.RetryAll(now_ns, Attempts());
  for (const ProcessGroups::Name& group : groups_.CheckSuspects(now_ns, [this](SessionId id) {
         const Session* session = sessions_->Find(id);
         return session != nullptr && session->endpoint != nullptr;
       })) {
    groups_to_wake_.push_back(group);
  }
  WakeGroups();
  // A walk over all sessions, for a limit of a minute: once a second.
  if (now_ns < next_expiry_ns_) return;
  next_expiry_ns_ = now_ns + 1'000'000'000;
  meter_.metrics().OnTimer(now_ns);
  pool_.Trim();
  CountDirectReads();
  sessions_->OnTimer(now_ns);
  RecheckEventWaiters();
}

}  // namespace tidepool::daemon
