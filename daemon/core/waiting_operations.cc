#include "daemon/core/waiting_operations.h"

#include <algorithm>
#include <utility>

#include "proto/base/check.h"
#include "proto/base/limits.h"
#include "proto/wire/reply_room.h"

namespace tidepool::daemon {
namespace {

// Returns the bytes of the frame's allowance that the answer may use. The answer comes alone,
// perhaps after all others: with the whole allowance for each, one session's answers would far
// exceed the client's reservation. Values that do not fit are streamed.
std::uint32_t ReplyShareOf(const wire::Request& request, const wire::Operation& operation) {
  const std::size_t least = wire::kReplyEntryBytes + wire::ReplyRoomOf(operation.opcode);
  const auto share = request.header.reply_bytes_max / request.operations.size();
  return static_cast<std::uint32_t>(std::max(share, least));
}

}  // namespace

WaitingOperations::WaitingOperations(storage::CoreStore& store, const Lease& lease,
                                     const Clock& clock, const Ownership& ownership,
                                     OperationMeter& meter, Responder& responder,
                                     OperationRunner& runner)
    : store_(store),
      lease_(lease),
      clock_(clock),
      ownership_(ownership),
      meter_(meter),
      responder_(responder),
      runner_(runner),
      room_waiters_(store) {}

void WaitingOperations::Start(Streams* streams, Sessions* sessions) {
  TP_CHECK(streams_ == nullptr);
  streams_ = streams;
  sessions_ = sessions;
}

void WaitingOperations::Stop() {
  io_waiters_ = {};
  room_waiters_.Clear();
  streams_ = nullptr;
  sessions_ = nullptr;
}

bool WaitingOperations::FindOrQueue(const Planned& planned, const RequestAtHand& at_hand,
                                    Reception& to) {
  if (planned.operation->has(wire::Argument::kWaitMs) && !event_waiters_.empty() &&
      event_waiters_.Holds(to.session.id, to.frame_id, planned.index)) {
    return true;
  }
  return !io_waiters_.empty() && QueueBehind(planned, at_hand, to);
}

// The session's credit bounds its own bytes, as for all unanswered frames. The store bounds the
// memory of a streamed value.
bool WaitingOperations::MayWait(const Session& session, const wire::Operation& operation) const {
  return operation.has(wire::Argument::kWaitMs) && operation.get(wire::Argument::kWaitMs) > 0 &&
         session.event_waiters < limits::kEventWaitersPerSessionMax &&
         session.event_waiter_bytes + operation.key.size() + operation.value.size() <=
             session.credit_bytes;
}

void WaitingOperations::Add(const Planned& planned, WaitFor wait_for, const RequestAtHand& at_hand,
                            Reception& to) {
  TP_DCHECK(wait_for != WaitFor::kNothing && wait_for != WaitFor::kPartition);
  if (wait_for == WaitFor::kDevice || wait_for == WaitFor::kMemory) {
    AddIo(planned, wait_for, at_hand, to);
  } else {
    AddEvent(planned, wait_for, at_hand.request, to);
  }
}

// Sets all fields except the wait condition and the deadline.
EventWaiter WaitingOperations::MakeWaiter(const Planned& planned, const wire::Request& request,
                                          Reception& to) {
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
  waiter.reply_bytes_max = ReplyShareOf(request, operation);
  waiter.index = planned.index;
  waiter.group = planned.group;
  return waiter;
}

void WaitingOperations::AddEvent(const Planned& planned, WaitFor wait_for,
                                 const wire::Request& request, Reception& to) {
  const wire::Operation& operation = *planned.operation;
  auto waiter = std::make_unique<EventWaiter>(MakeWaiter(planned, request, to));
  waiter->wait_for = wait_for;
  const std::uint64_t wait_ms = std::min<std::uint64_t>(operation.get(wire::Argument::kWaitMs),
                                                        request.header.time_left_us / 1'000);
  waiter->deadline_ns = to.received_ns + wait_ms * 1'000'000;
  ++to.session.event_waiters;
  to.session.event_waiter_bytes += waiter->bytes.size();
  event_waiters_.Add(std::move(waiter));
}

void WaitingOperations::UncountEvent(Session& session, const EventWaiter& waiter) {
  TP_DCHECK(session.event_waiters > 0 && session.event_waiter_bytes >= waiter.bytes.size());
  --session.event_waiters;
  session.event_waiter_bytes -= waiter.bytes.size();
}

void WaitingOperations::Wake(PartitionId partition) {
  if (!event_waiters_.WaitsOn(partition)) return;
  const auto attempt = Attempts();
  event_waiters_.RetryItems(partition, attempt);
  event_waiters_.RetryChanges(partition, attempt);
}

void WaitingOperations::WakeAfterPlan(const std::vector<Planned>& plan) {
  if (event_waiters_.empty()) return;
  const storage::Partition* last = nullptr;
  for (const Planned& planned : plan) {
    WakeAfter(planned, last);
    if (planned.partition->IsOneOf(wire::kItemKinds)) last = planned.partition;
  }
  WakeGroups();
}

// `last`: the partition whose waiters for items were just tried.
void WaitingOperations::WakeAfter(const Planned& planned, const storage::Partition* last) {
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

void WaitingOperations::WakeGroups() {
  std::vector<ProcessGroups::Name>& groups = runner_.groups_to_wake();
  // Waking one member may wake others.
  while (!groups.empty()) {
    const ProcessGroups::Name group = groups.back();
    groups.pop_back();
    event_waiters_.RetryKey(group.partition, WaitFor::kGroup, group.hash, Attempts());
  }
}

EventWaiters::Outcome WaitingOperations::AttemptEvent(EventWaiter& waiter, bool last) {
  using Outcome = EventWaiters::Outcome;
  const std::uint64_t now_ns = clock_.MonotonicNs();
  Session* session = sessions_->Find(waiter.session);
  if (session == nullptr) return Outcome::kAnswered;  // No client is left to be answered.
  const bool connected = session->endpoint != nullptr;
  if (!connected && !last) return Outcome::kSkipped;
  // A lapsed lease serves no operation; its renewal or a new map decides.
  if (!lease_.ValidAt(now_ns)) return Outcome::kWaits;
  const Verdict verdict = ownership_.Check(waiter.partition, waiter.term);
  if (verdict.kind == Verdict::Kind::kHold && !last) return Outcome::kWaits;
  AnswerSink sink = responder_.SinkFor(*session, waiter.frame_id, waiter.reply_bytes_max);
  Reception to{*session, waiter.frame_id, now_ns, session->kept.Find(waiter.frame_id), sink};
  const Planned planned{verdict.partition,  &waiter.operation, waiter.hash,
                        waiter.index,       waiter.group,      false,
                        waiter.upload.get()};
  if (verdict.kind == Verdict::Kind::kRun && connected) {
    const WaitFor wait_for = runner_.Run(planned, 0, store_.NowMs(), !last, to);
    if (wait_for == WaitFor::kDevice || wait_for == WaitFor::kMemory) {
      UncountEvent(*session, waiter);
      MoveToIo(waiter, wait_for, *session);
      return Outcome::kAnswered;
    }
    if (wait_for != WaitFor::kNothing) return Outcome::kWaits;
  } else {
    // Also for a client that is disconnected for the moment: nothing may be removed for it now.
    Reply reply;
    reply.answer.code = StatusCode::kDeadlineExceeded;
    if (verdict.kind == Verdict::Kind::kRefuse) reply.answer.code = verdict.code;
    if (verdict.kind == Verdict::Kind::kWait) reply.answer.code = StatusCode::kWrongEpoch;
    reply.answer.value = verdict.kind == Verdict::Kind::kRun
                             ? AsBytes("the wait ended while the client was not connected")
                             : AsBytes(TextFor(reply.answer.code));
    responder_.Conclude(planned, reply, 0, to);
  }
  UncountEvent(*session, waiter);
  responder_.PostApplied(to);
  return Outcome::kAnswered;
}

void WaitingOperations::RecheckEvents() { event_waiters_.Recheck(Attempts()); }

std::uint64_t WaitingOperations::NextDeadlineNs() const {
  return std::min(event_waiters_.next_deadline_ns(), io_waiters_.next_deadline_ns());
}

}  // namespace tidepool::daemon
