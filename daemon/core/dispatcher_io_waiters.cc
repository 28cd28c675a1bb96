// Operations that have met a record on a device, or no memory while some is on its way.
//
// They were not executed: the store says so (CoreStore::blocked) and nothing has changed. They keep
// their place before all later operations on their keys, and run again as a whole.
#include <algorithm>
#include <string_view>
#include <utility>

#include "daemon/core/dispatcher.h"
#include "proto/base/key_hash.h"
#include "proto/wire/chain.h"

namespace tidepool::daemon {
namespace {

// One that must be answered at once, but has met a record on a device, may take so long.
constexpr std::uint64_t kGraceNs = 1'000'000'000;

// Operations that wait for the store are answered this long before their deadline, at most an
// eighth of their time, so that the client hears the reason.
constexpr std::uint64_t kAnswerEarlyNs = 50'000'000;

bool WaitsForStore(WaitFor wait_for) {
  return wait_for == WaitFor::kDevice || wait_for == WaitFor::kMemory;
}

}  // namespace

// What the operation that has just run has to wait for, if it has met something that is not in
// DRAM: then it has changed nothing.
WaitFor Dispatcher::WaitsOnStore(Reply* reply) {
  if (store_.blocked()) {
    const StatusCode lost = store_.TakeLost();
    if (lost == StatusCode::kOk) return WaitFor::kDevice;
    *reply = Reply();
    Refuse(reply, lost,
           lost == StatusCode::kDeviceError         ? "the device does not give the record back"
           : lost == StatusCode::kResourceExhausted ? "no memory to read the value into; try again"
                                                    : "the record on the device is damaged");
  } else if (reply->answer.code == StatusCode::kResourceExhausted) {
    refusal_ = store_.TakeRefused();
    if (store_.MayWait(refusal_)) return WaitFor::kMemory;
    if (refusal_ && store_.checkpoints() && reply->answer.value.empty()) {
      Refuse(reply, StatusCode::kResourceExhausted, kMemoryAndDevicesFull);
    }
  }
  return WaitFor::kNothing;
}

std::vector<std::uint64_t> Dispatcher::HashesOf(const wire::Operation& operation,
                                                std::uint64_t hash) {
  if (operation.opcode == wire::Opcode::kChain) {
    std::vector<wire::ChainStep> steps;
    std::vector<std::uint64_t> hashes;
    if (!wire::DecodeChain(operation.value, &steps).ok()) return {};
    for (const wire::ChainStep& step : steps) hashes.push_back(KeyHash(step.operation.key));
    std::sort(hashes.begin(), hashes.end());
    hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
    return hashes;
  }
  // What one client pushes keeps its order too.
  if (operation.opcode == wire::Opcode::kPush || operation.opcode == wire::Opcode::kPushMany) {
    return {0};
  }
  // So does what one client pops; apart from pushes, which seldom wait for a device.
  if (operation.opcode == wire::Opcode::kPop) return {1};
  if (!wire::InfoOf(operation.opcode).keyed) return {};
  return {hash};
}

// Of the plan: those before it on the same key have not run yet, or it came again and is here.
bool Dispatcher::PendBehind(const Planned& planned, Reception& to) {
  if (io_waiters_.Holds(to.session.id, to.frame_id, planned.index)) return true;
  const std::vector<std::uint64_t> hashes = HashesOf(*planned.operation, planned.hash);
  if (!io_waiters_.Blocks(planned.partition->id(), hashes)) return false;
  Pend(planned, WaitFor::kNothing, to);
  return true;
}

// `wait_for` is kNothing if it has not run yet, as it is not its turn.
void Dispatcher::Pend(const Planned& planned, WaitFor wait_for, Reception& to) {
  // Reads are kept too while they wait, so that a copy of the frame does not charge them twice.
  if (to.kept == nullptr) {
    to.kept = KeepFrame(to.session);
    for (const Planned& each : at_hand_.plan) to.kept->fates[each.group] = GroupFate::kDone;
  }
  auto pending = std::make_unique<IoWaiter>();
  pending->operation = MakeEventWaiter(planned, to);
  const std::uint64_t deadline_ns = DeadlineNs(to.received_ns);
  const std::uint64_t left_ns = deadline_ns - std::min(deadline_ns, to.received_ns);
  pending->operation.deadline_ns = deadline_ns - std::min(kAnswerEarlyNs, left_ns / 8);
  pending->hashes = HashesOf(*planned.operation, planned.hash);
  pending->quiet = planned.quiet;
  pending->received_ns = to.received_ns;
  AddIoWaiter(std::move(pending), wait_for, to.session);
}

void Dispatcher::AddIoWaiter(std::unique_ptr<IoWaiter> pending, WaitFor wait_for,
                             Session& session) {
  // A quiet group counts as one operation, and is told from others by its bytes alone.
  if (!pending->quiet) ++session.waiting_operations;
  pending->held =
      std::make_shared<const HeldBytes>(session.held_bytes, pending->operation.bytes.size());
  const std::uint64_t id = io_waiters_.Add(std::move(pending))->id;
  WaitForStore(id, wait_for);
}

void Dispatcher::WaitForStore(std::uint64_t id, WaitFor wait_for) {
  IoWaiter* pending = io_waiters_.Find(id);
  pending->parked = !WaitsForStore(wait_for);
  if (wait_for == WaitFor::kDevice) CountDeviceRead(pending);
  if (wait_for == WaitFor::kDevice) store_.Fetch([this, id] { RunIoWaiter(id); });
  pending->for_room = wait_for == WaitFor::kMemory;
  if (pending->for_room) WhenRoom(std::exchange(refusal_, {}), [this, id] { RunIoWaiter(id); });
}

// Once for each operation, however often it meets more.
void Dispatcher::CountDeviceRead(IoWaiter* pending) {
  if (std::exchange(pending->counted, true)) return;
  storage::Partition* partition = store_.Find(pending->operation.partition);
  if (partition != nullptr && ReadsRecords(pending->operation.operation.opcode)) {
    partition->CountDeviceRead();
    meter_.CountDeviceRead(*partition);
  }
}

// What it waited for has come; and then all that waited for it have their turn.
void Dispatcher::RunIoWaiter(std::uint64_t id) {
  std::vector<std::uint64_t> turns{id};
  for (std::size_t i = 0; i < turns.size(); ++i) {
    IoWaiter* pending = io_waiters_.Find(turns[i]);
    if (pending == nullptr || !io_waiters_.HasTurn(*pending)) continue;
    const WaitFor wait_for = AttemptIoWaiter(*pending);
    if (wait_for == WaitFor::kNothing) {
      RemoveIoWaiter(turns[i], &turns);
    } else {
      WaitForStore(turns[i], wait_for);
    }
  }
}

void Dispatcher::RemoveIoWaiter(std::uint64_t id, std::vector<std::uint64_t>* next) {
  const auto removed = io_waiters_.Remove(id, next);
  Session* session = sessions_->Find(removed->operation.session);
  if (session != nullptr && !removed->quiet) --session->waiting_operations;
}

// kNothing: it is answered, or nobody is left to be. Others: it stays, and waits for that; kItem,
// which no such operation waits for, says that its partition must serve first.
WaitFor Dispatcher::AttemptIoWaiter(IoWaiter& pending) {
  constexpr WaitFor kParked = WaitFor::kItem;
  EventWaiter& waiter = pending.operation;
  const std::uint64_t now_ns = clock_.MonotonicNs();
  Session* session = sessions_->Find(waiter.session);
  if (session == nullptr) return WaitFor::kNothing;
  // A lapsed lease serves nobody; its renewal or a new map decides.
  if (!lease_.ValidAt(now_ns)) return kParked;
  const Verdict verdict = ownership_.Check(waiter.partition, waiter.term);
  if (verdict.kind == Verdict::Kind::kHold) return kParked;
  if (verdict.kind != Verdict::Kind::kRun) {
    const StatusCode code =
        verdict.kind == Verdict::Kind::kWait ? StatusCode::kWrongEpoch : verdict.code;
    EndIoWaiter(pending, code, TextFor(code));
    return WaitFor::kNothing;
  }
  AnswerSink sink = responder_.SinkFor(*session, waiter.frame_id, waiter.reply_bytes_max);
  Reception to{*session, waiter.frame_id, now_ns, session->kept.Find(waiter.frame_id), sink};
  const Planned planned{verdict.partition, &waiter.operation, waiter.hash,        waiter.index,
                        waiter.group,      pending.quiet,     waiter.upload.get()};
  const bool may_wait = MaySuspend(*session, waiter.operation);
  const WaitFor wait_for = RunAndAnswer(planned, 0, store_.NowMs(), may_wait, to);
  if (WaitsForStore(wait_for)) return wait_for;
  if (wait_for != WaitFor::kNothing) {
    SuspendIoWaiter(&waiter, wait_for, *session);
    return WaitFor::kNothing;
  }
  responder_.PostApplied(to);
  meter_.CountWaited(pending);
  WakeAfter(planned, nullptr);
  WakeGroups();
  return WaitFor::kNothing;
}

// It has read what it needed, and waits for a change of it from now on.
void Dispatcher::SuspendIoWaiter(EventWaiter* waiter, WaitFor wait_for, Session& session) {
  auto suspended = std::make_unique<EventWaiter>();
  *suspended = CopyOf(*waiter);
  suspended->upload = std::move(waiter->upload);
  suspended->wait_for = wait_for;
  const std::uint64_t wait_ns = waiter->operation.get(wire::Argument::kWaitMs) * 1'000'000;
  suspended->deadline_ns = std::min(waiter->deadline_ns, clock_.MonotonicNs() + wait_ns);
  ++session.event_waiters;
  session.event_waiter_bytes += suspended->bytes.size();
  event_waiters_.Add(std::move(suspended));
}

// One that waited for a change, and now has to wait for a device or memory.
void Dispatcher::ParkEventWaiter(EventWaiter& waiter, WaitFor wait_for, Session& session) {
  auto pending = std::make_unique<IoWaiter>();
  pending->operation = CopyOf(waiter);
  pending->operation.upload = std::move(waiter.upload);
  pending->operation.deadline_ns = std::max(waiter.deadline_ns, clock_.MonotonicNs() + kGraceNs);
  // Not in the line of its key: it waits behind nobody, as before.
  AddIoWaiter(std::move(pending), wait_for, session);
}

// Answers one that was not executed and will not be. The caller removes it.
void Dispatcher::EndIoWaiter(IoWaiter& pending, StatusCode code, std::string_view why) {
  EventWaiter& waiter = pending.operation;
  Session* session = sessions_->Find(waiter.session);
  if (session == nullptr) return;
  AnswerSink sink = responder_.SinkFor(*session, waiter.frame_id, waiter.reply_bytes_max);
  Reception to{*session, waiter.frame_id, clock_.MonotonicNs(), session->kept.Find(waiter.frame_id),
               sink};
  const Planned planned{nullptr,      &waiter.operation, waiter.hash,        waiter.index,
                        waiter.group, pending.quiet,     waiter.upload.get()};
  Reply reply;
  Refuse(&reply, code, why);
  responder_.Conclude(planned, reply, why.size(), to);
  responder_.PostApplied(to);
}

void Dispatcher::ExpireIoWaiters(std::uint64_t now_ns) {
  for (const std::uint64_t id : io_waiters_.Expired(now_ns)) {
    IoWaiter* pending = io_waiters_.Find(id);
    if (pending == nullptr) continue;  // Went with another.
    EndIoWaiter(*pending, StatusCode::kDeadlineExceeded,
                pending->for_room ? kWaitedForRoom
                                  : "the device was too slow; the operation was not executed");
    DropIoWaiters(id);
  }
}

void Dispatcher::DropIoWaitersBelow(const Session& session, std::uint64_t frame_id) {
  // All first: one behind another may have been given up with it.
  std::vector<std::uint64_t> turns;
  for (const std::uint64_t id : io_waiters_.Below(session.id, frame_id)) RemoveIoWaiter(id, &turns);
  for (const std::uint64_t next : turns) RunIoWaiter(next);
}

// It will not run any more; those behind it may.
void Dispatcher::DropIoWaiters(std::uint64_t id) {
  std::vector<std::uint64_t> turns;
  RemoveIoWaiter(id, &turns);
  for (const std::uint64_t next : turns) RunIoWaiter(next);
}

void Dispatcher::RecheckIoWaiters() {
  for (const std::uint64_t id : io_waiters_.Parked()) RunIoWaiter(id);
}

unsigned Dispatcher::PollDevices() {
  unsigned done = store_.Poll();
  if (!responder_.commit_waiters().empty()) [[unlikely]]
    done += responder_.ReleaseDurable();
  if (!room_waiters_.empty()) [[unlikely]]
    done += room_waiters_.Serve();
  return done;
}

}  // namespace tidepool::daemon
