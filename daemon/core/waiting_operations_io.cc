// Operations that met a record on a device, or lack memory that is on its way.
//
// They were not executed: the store says so (CoreStore::blocked), and nothing has changed. They
// keep their place before all later operations on their keys, and run again as a whole.
#include <algorithm>
#include <string_view>
#include <utility>

#include "daemon/core/waiting_operations.h"
#include "proto/base/check.h"
#include "proto/base/key_hash.h"
#include "proto/wire/chain.h"

namespace tidepool::daemon {
namespace {

// Time for an operation that must be answered at once, but has met a record on a device.
constexpr std::uint64_t kGraceNs = 1'000'000'000;

// Operations that wait for the store are answered this long before their deadline, or an eighth of
// their time if that is less, so that the client receives the reason.
constexpr std::uint64_t kAnswerEarlyNs = 50'000'000;

bool WaitsForStore(WaitFor wait_for) {
  return wait_for == WaitFor::kDevice || wait_for == WaitFor::kMemory;
}

std::vector<std::uint64_t> HashesOf(const wire::Operation& operation, std::uint64_t hash) {
  if (operation.opcode == wire::Opcode::kChain) {
    std::vector<wire::ChainStep> steps;
    std::vector<std::uint64_t> hashes;
    if (!wire::DecodeChain(operation.value, &steps).ok()) return {};
    for (const wire::ChainStep& step : steps) hashes.push_back(KeyHash(step.operation.key));
    std::sort(hashes.begin(), hashes.end());
    hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
    return hashes;
  }
  // Pushes of one client keep their order too.
  if (operation.opcode == wire::Opcode::kPush || operation.opcode == wire::Opcode::kPushMany) {
    return {0};
  }
  // Pops of one client keep their order too, apart from pushes, which seldom wait for a device.
  if (operation.opcode == wire::Opcode::kPop) return {1};
  if (!wire::InfoOf(operation.opcode).keyed) return {};
  return {hash};
}

// Copies all but the upload.
EventWaiter CopyOf(const EventWaiter& waiter) {
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

}  // namespace

bool WaitingOperations::QueueBehind(const Planned& planned, const RequestAtHand& at_hand,
                                    Reception& to) {
  if (io_waiters_.Holds(to.session.id, to.frame_id, planned.index)) return true;
  const std::vector<std::uint64_t> hashes = HashesOf(*planned.operation, planned.hash);
  if (!io_waiters_.Blocks(planned.partition->id(), hashes)) return false;
  AddIo(planned, WaitFor::kNothing, at_hand, to);
  return true;
}

// `wait_for` is kNothing if it has not run yet, as it is not its turn.
void WaitingOperations::AddIo(const Planned& planned, WaitFor wait_for,
                              const RequestAtHand& at_hand, Reception& to) {
  // Reads are cached too while they wait, so that a resent frame is not charged twice.
  if (to.kept == nullptr) {
    to.kept = KeepFrame(to.session, at_hand.request);
    for (const Planned& each : at_hand.plan) to.kept->fates[each.group] = GroupFate::kDone;
  }
  auto waiter = std::make_unique<IoWaiter>();
  waiter->operation = MakeWaiter(planned, at_hand.request, to);
  const std::uint64_t deadline_ns = DeadlineNs(at_hand.request, to.received_ns);
  const std::uint64_t left_ns = deadline_ns - std::min(deadline_ns, to.received_ns);
  waiter->operation.deadline_ns = deadline_ns - std::min(kAnswerEarlyNs, left_ns / 8);
  waiter->hashes = HashesOf(*planned.operation, planned.hash);
  waiter->quiet = planned.quiet;
  waiter->received_ns = to.received_ns;
  InsertIo(std::move(waiter), wait_for, to.session);
}

void WaitingOperations::InsertIo(std::unique_ptr<IoWaiter> waiter, WaitFor wait_for,
                                 Session& session) {
  TP_DCHECK(waiter->operation.session == session.id);
  // A quiet group is charged for its bytes only, not as an operation.
  if (!waiter->quiet) ++session.waiting_operations;
  waiter->held =
      std::make_shared<const HeldBytes>(session.held_bytes, waiter->operation.bytes.size());
  const std::uint64_t id = io_waiters_.Add(std::move(waiter))->id;
  WaitForStore(id, wait_for);
}

void WaitingOperations::WaitForStore(std::uint64_t id, WaitFor wait_for) {
  IoWaiter* waiter = io_waiters_.Find(id);
  waiter->parked = !WaitsForStore(wait_for);
  if (wait_for == WaitFor::kDevice) CountDeviceRead(waiter);
  if (wait_for == WaitFor::kDevice) store_.Fetch([this, id] { RunIo(id); });
  waiter->for_room = wait_for == WaitFor::kMemory;
  if (waiter->for_room) WhenRoom(runner_.TakeRefusal(), [this, id] { RunIo(id); });
}

// Once for each operation, however often it meets more.
void WaitingOperations::CountDeviceRead(IoWaiter* waiter) {
  if (std::exchange(waiter->counted, true)) return;
  storage::Partition* partition = store_.Find(waiter->operation.partition);
  if (partition != nullptr && ReadsRecords(waiter->operation.operation.opcode)) {
    partition->CountDeviceRead();
    meter_.CountDeviceRead(*partition);
  }
}

// Runs the operation, because its record or memory has come; then all operations that waited for
// its end.
void WaitingOperations::RunIo(std::uint64_t id) {
  std::vector<std::uint64_t> turns{id};
  for (std::size_t i = 0; i < turns.size(); ++i) {
    IoWaiter* waiter = io_waiters_.Find(turns[i]);
    if (waiter == nullptr || !io_waiters_.HasTurn(*waiter)) continue;
    const WaitFor wait_for = AttemptIo(*waiter);
    if (wait_for == WaitFor::kNothing) {
      RemoveIo(turns[i], &turns);
    } else {
      WaitForStore(turns[i], wait_for);
    }
  }
}

// Returns kNothing if the operation is answered, or has no client any more. Otherwise it stays, and
// waits for the result.
WaitFor WaitingOperations::AttemptIo(IoWaiter& io) {
  EventWaiter& waiter = io.operation;
  const std::uint64_t now_ns = clock_.MonotonicNs();
  Session* session = sessions_->Find(waiter.session);
  if (session == nullptr) return WaitFor::kNothing;
  // A lapsed lease serves no operation; its renewal or a new map decides.
  if (!lease_.ValidAt(now_ns)) return WaitFor::kPartition;
  const Verdict verdict = ownership_.Check(waiter.partition, waiter.term);
  if (verdict.kind == Verdict::Kind::kHold) return WaitFor::kPartition;
  if (verdict.kind != Verdict::Kind::kRun) {
    const StatusCode code =
        verdict.kind == Verdict::Kind::kWait ? StatusCode::kWrongEpoch : verdict.code;
    EndIo(io, code, TextFor(code));
    return WaitFor::kNothing;
  }
  AnswerSink sink = responder_.SinkFor(*session, waiter.frame_id, waiter.reply_bytes_max);
  Reception to{*session, waiter.frame_id, now_ns, session->kept.Find(waiter.frame_id), sink};
  const Planned planned{verdict.partition, &waiter.operation, waiter.hash,        waiter.index,
                        waiter.group,      io.quiet,          waiter.upload.get()};
  const bool may_wait = MayWait(*session, waiter.operation);
  const WaitFor wait_for = runner_.Run(planned, 0, store_.NowMs(), may_wait, to);
  if (WaitsForStore(wait_for)) return wait_for;
  if (wait_for != WaitFor::kNothing) {
    MoveToEvents(&waiter, wait_for, *session);
    return WaitFor::kNothing;
  }
  responder_.PostApplied(to);
  meter_.CountWaited(io);
  WakeAfter(planned, nullptr);
  WakeGroups();
  return WaitFor::kNothing;
}

// The operation has read its record, and waits for a change of it from now on.
void WaitingOperations::MoveToEvents(EventWaiter* waiter, WaitFor wait_for, Session& session) {
  auto moved = std::make_unique<EventWaiter>();
  *moved = CopyOf(*waiter);
  moved->upload = std::move(waiter->upload);
  moved->wait_for = wait_for;
  const std::uint64_t wait_ns = waiter->operation.get(wire::Argument::kWaitMs) * 1'000'000;
  moved->deadline_ns = std::min(waiter->deadline_ns, clock_.MonotonicNs() + wait_ns);
  ++session.event_waiters;
  session.event_waiter_bytes += moved->bytes.size();
  event_waiters_.Add(std::move(moved));
}

// The operation waited for a change, and now has to wait for a device or memory.
void WaitingOperations::MoveToIo(EventWaiter& waiter, WaitFor wait_for, Session& session) {
  auto moved = std::make_unique<IoWaiter>();
  moved->operation = CopyOf(waiter);
  moved->operation.upload = std::move(waiter.upload);
  moved->operation.deadline_ns = std::max(waiter.deadline_ns, clock_.MonotonicNs() + kGraceNs);
  // Not in the line of its key: it waits behind no other operation, as before.
  InsertIo(std::move(moved), wait_for, session);
}

// Answers an operation that was not executed and will not be. The caller removes it.
void WaitingOperations::EndIo(IoWaiter& io, StatusCode code, std::string_view why) {
  EventWaiter& waiter = io.operation;
  Session* session = sessions_->Find(waiter.session);
  if (session == nullptr) return;
  AnswerSink sink = responder_.SinkFor(*session, waiter.frame_id, waiter.reply_bytes_max);
  Reception to{*session, waiter.frame_id, clock_.MonotonicNs(), session->kept.Find(waiter.frame_id),
               sink};
  const Planned planned{nullptr,      &waiter.operation, waiter.hash,        waiter.index,
                        waiter.group, io.quiet,          waiter.upload.get()};
  Reply reply;
  Refuse(&reply, code, why);
  responder_.Conclude(planned, reply, why.size(), to);
  responder_.PostApplied(to);
}

void WaitingOperations::RemoveIo(std::uint64_t id, std::vector<std::uint64_t>* next) {
  const auto removed = io_waiters_.Remove(id, next);
  Session* session = sessions_->Find(removed->operation.session);
  if (session == nullptr || removed->quiet) return;
  TP_DCHECK(session->waiting_operations > 0);
  --session->waiting_operations;
}

// The operation will not run any more; operations behind it may.
void WaitingOperations::DropIo(std::uint64_t id) {
  std::vector<std::uint64_t> turns;
  RemoveIo(id, &turns);
  for (const std::uint64_t next : turns) RunIo(next);
}

void WaitingOperations::RecheckIo() {
  for (const std::uint64_t id : io_waiters_.Parked()) RunIo(id);
}

void WaitingOperations::OnTimer(std::uint64_t now_ns) {
  if (!io_waiters_.empty()) {
    for (const std::uint64_t id : io_waiters_.Expired(now_ns)) {
      IoWaiter* waiter = io_waiters_.Find(id);
      if (waiter == nullptr) continue;  // Went with another.
      EndIo(*waiter, StatusCode::kDeadlineExceeded,
            waiter->for_room ? kWaitedForRoom
                             : "the device was too slow; the operation was not executed");
      DropIo(id);
    }
    RecheckIo();
  }
  event_waiters_.RetryAll(now_ns, Attempts());
}

void WaitingOperations::DropBelow(Session& session, std::uint64_t frame_id) {
  if (session.event_waiters > 0) {
    event_waiters_.DropBelow(session.id, frame_id, [&session](const EventWaiter& waiter) {
      UncountEvent(session, waiter);
    });
  }
  if (io_waiters_.empty()) return;
  // Removes all first: an operation behind another may have been given up with it.
  std::vector<std::uint64_t> turns;
  for (const std::uint64_t id : io_waiters_.Below(session.id, frame_id)) RemoveIo(id, &turns);
  for (const std::uint64_t next : turns) RunIo(next);
}

}  // namespace tidepool::daemon
