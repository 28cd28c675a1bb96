// Operations that cannot be answered yet: they wait, run again, and are answered.
//
//   daemon/core/dispatcher -> [waiting_operations] -> operation_runner -> handler, again
//
// An operation waits in one of two places. IoWaiters: it has met a record on a device, or lacks
// memory that is on its way. EventWaiters: its handler waits for an item, room, a change or a
// process group. It changes its place if it meets the other reason when it runs again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/core/event_waiters.h"
#include "daemon/core/io_waiters.h"
#include "daemon/core/lease.h"
#include "daemon/core/operation_meter.h"
#include "daemon/core/operation_runner.h"
#include "daemon/core/ownership.h"
#include "daemon/core/reception.h"
#include "daemon/core/responder.h"
#include "daemon/core/room_waiters.h"
#include "daemon/core/sessions.h"
#include "daemon/core/streams.h"
#include "proto/base/clock.h"
#include "storage/core_store.h"

namespace tidepool::daemon {

// Owner core only.
//
// Invariants: a waiting operation has changed nothing; it has a session, or is dropped at its next
// attempt; it is in one place, and counts there in its session (waiting_operations, or
// event_waiters and event_waiter_bytes) until it leaves.
class WaitingOperations {
 public:
  // All must outlive it.
  WaitingOperations(storage::CoreStore& store, const Lease& lease, const Clock& clock,
                    const Ownership& ownership, OperationMeter& meter, Responder& responder,
                    OperationRunner& runner);
  WaitingOperations(const WaitingOperations&) = delete;
  WaitingOperations& operator=(const WaitingOperations&) = delete;
  // Before the first frame. The arguments must stay valid until Stop.
  void Start(Streams* streams, Sessions* sessions);
  void Stop();

  // Returns true if a resent operation still waits, or must wait behind other operations on its
  // keys. It will be answered.
  bool WaitsAlready(const Planned& planned, const RequestAtHand& at_hand, Reception& to) {
    if (event_waiters_.empty() && io_waiters_.empty()) [[likely]]
      return false;
    return FindOrQueue(planned, at_hand, to);
  }
  bool MayWait(const Session& session, const wire::Operation& operation) const;
  // Adds an operation that has to wait for `wait_for`.
  void Add(const Planned& planned, WaitFor wait_for, const RequestAtHand& at_hand, Reception& to);
  // True if the operation waits for a device or for memory.
  bool HoldsIo(SessionId session, std::uint64_t frame_id, std::uint16_t index) const {
    return !io_waiters_.empty() && io_waiters_.Holds(session, frame_id, index);
  }

  // Tries waiters that may proceed after the operations of the plan, which have run.
  void WakeAfterPlan(const std::vector<Planned>& plan);
  // Tries the waiters of the partition for items or changes.
  void Wake(PartitionId partition);
  // Tries the waiters for the process groups that the runner reports.
  void WakeGroups();
  // Tries operations that wait for their partition or their turn.
  void RecheckIo();
  // Tries all operations that wait for an event: after a map, and periodically.
  void RecheckEvents();
  // Answers operations whose time is up.
  void OnTimer(std::uint64_t now_ns);
  // Drops the operations of the session's frames below `frame_id`, unanswered.
  void DropBelow(Session& session, std::uint64_t frame_id);
  // Returns the earliest deadline, or the largest number.
  std::uint64_t NextDeadlineNs() const;

  // Calls `run` when a refused operation has room, or will get none (RoomWaiters).
  void WhenRoom(storage::Refusal refusal, std::function<void()> run) {
    room_waiters_.Add(std::move(refusal), std::move(run));
  }
  bool waits_for_room() const { return !room_waiters_.empty(); }
  unsigned ServeRoom() { return room_waiters_.Serve(); }

  std::size_t io_waiters() const { return io_waiters_.size(); }
  std::size_t event_waiters() const { return event_waiters_.size(); }

 private:
  bool FindOrQueue(const Planned& planned, const RequestAtHand& at_hand, Reception& to);

  // ---- For a device or memory: waiting_operations_io.cc.
  bool QueueBehind(const Planned& planned, const RequestAtHand& at_hand, Reception& to);
  void AddIo(const Planned& planned, WaitFor wait_for, const RequestAtHand& at_hand, Reception& to);
  void InsertIo(std::unique_ptr<IoWaiter> waiter, WaitFor wait_for, Session& session);
  void WaitForStore(std::uint64_t id, WaitFor wait_for);
  void CountDeviceRead(IoWaiter* waiter);
  void RunIo(std::uint64_t id);
  WaitFor AttemptIo(IoWaiter& waiter);
  void MoveToEvents(EventWaiter* waiter, WaitFor wait_for, Session& session);
  void MoveToIo(EventWaiter& waiter, WaitFor wait_for, Session& session);
  void EndIo(IoWaiter& waiter, StatusCode code, std::string_view why);
  void RemoveIo(std::uint64_t id, std::vector<std::uint64_t>* next);
  void DropIo(std::uint64_t id);

  // ---- For an event: waiting_operations.cc.
  EventWaiter MakeWaiter(const Planned& planned, const wire::Request& request, Reception& to);
  void AddEvent(const Planned& planned, WaitFor wait_for, const wire::Request& request,
                Reception& to);
  static void UncountEvent(Session& session, const EventWaiter& waiter);
  void WakeAfter(const Planned& planned, const storage::Partition* last);
  EventWaiters::Outcome AttemptEvent(EventWaiter& waiter, bool last);
  auto Attempts() {
    return [this](EventWaiter& waiter, bool last) { return AttemptEvent(waiter, last); };
  }

  storage::CoreStore& store_;
  const Lease& lease_;
  const Clock& clock_;
  const Ownership& ownership_;
  OperationMeter& meter_;
  Responder& responder_;
  OperationRunner& runner_;
  Streams* streams_ = nullptr;
  Sessions* sessions_ = nullptr;
  IoWaiters io_waiters_;
  EventWaiters event_waiters_;
  RoomWaiters room_waiters_;
};

}  // namespace tidepool::daemon
