// From frame to answer: session, credit, term and owner are checked, operations run in stages.
//
//   proto/transport -> [daemon/core/dispatcher] -> daemon/ops/hash_ops -> storage
//
// The order of HandleRequest is the protocol: what was answered before is recognised before the
// term is looked at; the lease is read before anything is applied and again before anything is
// answered.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/core/event_waiters.h"
#include "daemon/core/forwarder.h"
#include "daemon/core/io_waiters.h"
#include "daemon/core/lease.h"
#include "daemon/core/map_waiters.h"
#include "daemon/core/operation_meter.h"
#include "daemon/core/ownership.h"
#include "daemon/core/range_moves.h"
#include "daemon/core/reception.h"
#include "daemon/core/responder.h"
#include "daemon/core/room_waiters.h"
#include "daemon/core/sessions.h"
#include "daemon/core/streams.h"
#include "daemon/ops/operation.h"
#include "daemon/ops/process_groups.h"
#include "proto/base/clock.h"
#include "proto/transport/remote_memory.h"
#include "proto/transport/transport.h"
#include "proto/wire/aggregator.h"
#include "proto/wire/group.h"
#include "storage/core_store.h"

namespace tidepool::daemon {

// Owner core only.
class Dispatcher : public transport::Receiver, public Executor {
 public:
  // All must outlive the dispatcher. `slow_ns`: see CoreMetrics.
  Dispatcher(CoreId core, storage::CoreStore& store, HeapCover& heap, const Lease& lease,
             const Clock& clock, std::uint64_t slow_ns = 0);
  ~Dispatcher() override;
  // What Apply finds; before the first frame. Must outlive the dispatcher.
  void set_functions(const Functions* functions) { functions_ = functions; }
  const Functions* functions() const { return functions_; }
  // Where forwarded groups go; before the first frame. Must outlive the dispatcher. Null: they are
  // refused.
  void set_aggregator(wire::Aggregator* aggregator) { forwarder_.set_aggregator(aggregator); }
  // What shows memory to other nodes; before the first frame. Must outlive the dispatcher. May be
  // null.
  void set_exporter(transport::MemoryExporter* exporter) { exporter_ = exporter; }
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // A worker needs its receiver first, so it comes later. Stop ends all sessions, before the worker
  // goes.
  void Start(transport::Worker* worker);
  void Stop();

  // transport::Receiver
  void OnFrame(Bytes frame) override;
  void OnFrameParts(Bytes head, Bytes body) override;
  void OnPeerLost(transport::Endpoint* endpoint, const Status& why) override;

  // Takes a newer map over and runs the groups that waited for it.
  // `may_grant_durable`: as Ownership::Install.
  Status InstallMap(placement::PlacementMapPtr map, NodeId self, bool may_grant_durable = true);

  // Ends a freeze (ownership().Freeze) of {partition, term} where nothing has moved: runs what was
  // held back, in its order. Nothing happens if a map has ended it meanwhile. What was held back
  // and what waits in the partition is told by InstallMap if it has moved.
  void Thaw(PartitionId partition, Term term);

  // Ranges of ordered partitions that move between this node's cores.
  RangeMoves& range_moves() { return *range_moves_; }
  // What became of frames that the aggregator has had.
  void OnForwarded(const std::vector<wire::ForwardedOutcome>& outcomes);
  // A partition that was copied here is complete: runs what was held back for it.
  void EndImport(PartitionId partition);

  // Moves on what devices do, and the operations that wait for it. Returns how much was done.
  unsigned PollDevices();
  // Calls `run` when a refused operation has room, or will get none (RoomWaiters).
  void WhenRoom(storage::Refusal refusal, std::function<void()> run) {
    room_waiters_.Add(std::move(refusal), std::move(run));
  }
  // Notes that a task of CoreGroup::Run has changed the partition: the task ends when all that it
  // has noted is durable.
  void NoteTaskWait(const storage::Partition& partition) {
    task_wait_ = std::max(task_wait_, responder_.CommitWaitOf(partition));
  }
  std::uint64_t TakeTaskWait() { return std::exchange(task_wait_, 0); }
  Responder& responder() { return responder_; }
  bool waits_for_room() const { return !room_waiters_.empty(); }

  // Sends what the streams may send; returns the number of frames.
  unsigned SendStreamParts() { return streams_->SendParts(limits::kStreamPartsPerPoll); }

  // Ends groups that waited past their deadline and sessions that are silent. Every few
  // milliseconds.
  void OnTimer(std::uint64_t now_ns);
  // When OnTimer next has somebody to answer; never: the largest number. Walks over what waits for
  // a map, which is seldom anything.
  std::uint64_t NextDeadlineNs() const;

  Sessions& sessions() { return *sessions_; }
  Ownership& ownership() { return ownership_; }
  OperationMeter& meter() { return meter_; }
  const OperationMeter& meter() const { return meter_; }
  // The checks that every operation passes, whoever asks for it, and its handler. The lease and the
  // partition's term are the caller's to check.
  void Execute(const OperationContext& context, Reply* reply) override;
  // After changes that did not come by frame: serves at once what waits on the partition, which the
  // timer does too, some milliseconds later.
  void Wake(PartitionId partition);
  void OnDirectReads(SessionId session, const storage::Partition& partition,
                     const DirectReads& reads) override;
  // Adds the direct reads since the last call. Needed before counters are copied.
  void CountDirectReads();
  // On the heap, for clients: see heap_cover.h.
  std::size_t heap_bytes() const { return pool_.bytes() + sessions_->cached_bytes(); }
  // Groups that wait for a map or the end of a freeze.
  std::size_t map_waiters() const { return map_waiters_.size(); }
  // Operations that wait for a device, memory, or those before them on their key;
  std::size_t io_waiters() const { return io_waiters_.size(); }
  // for an item, room or a change;
  std::size_t event_waiters() const { return event_waiters_.size(); }
  // and frames of answers that wait for a commit.
  std::size_t replies_awaiting_commit() const { return responder_.commit_waiters().size(); }

 private:
  // Refuses what a durable partition does not take.
  bool RefusesDurable(const OperationContext& context, Reply* reply) const;
  Session* SenderOf(Bytes head, std::size_t frame_bytes, std::uint64_t received_ns,
                    wire::FrameHeader* header);
  void HandleStream(Session& session, const Status& decoded, const wire::StreamFrame& frame);
  void HandleRequest(Session& session, Bytes frame, std::uint64_t received_ns);
  std::uint64_t DeadlineNs(std::uint64_t received_ns) const;  // Of the request at hand.
  bool AdmitRequest(Session& session, const CachedReply* kept, std::size_t frame_bytes);
  CachedReply* KeepFrame(Session& session);
  void ReplayGroup(std::uint16_t g, Reception& to);
  void ReplayQuiet(std::uint16_t g, Reception& to);
  void DispatchGroup(std::uint16_t g, Bytes frame, Reception& to);
  void HoldGroup(std::uint16_t g, Bytes frame, Reception& to);
  void ForwardGroup(std::uint16_t g, Bytes frame, Reception& to);
  void PlanOperations(std::uint16_t g, storage::Partition* partition, const Session& session);
  void PlanReadsAgain(std::uint16_t g, storage::Partition* partition);
  void EndGroup(std::uint16_t g, StatusCode code, Reception& to);
  void RunPlan(Reception& to);
  // What the answer takes at most, but for a value that can be streamed.
  static std::size_t ReplyBytesOf(const Planned& planned);
  // `reserved_bytes`: of the answers behind this one.
  void RunOne(const Planned& planned, std::size_t reserved_bytes, std::uint64_t now_ms,
              Reception& to);
  WaitFor RunAndAnswer(const Planned& planned, std::size_t reserved_bytes, std::uint64_t now_ms,
                       bool may_wait, Reception& to);
  EventWaiter MakeEventWaiter(const Planned& planned, Reception& to);
  static EventWaiter CopyOf(const EventWaiter& waiter);
  void WakeAfter(const Planned& planned, const storage::Partition* last);
  // dispatcher_io_waiters.cc
  WaitFor WaitsOnStore(Reply* reply);
  static std::vector<std::uint64_t> HashesOf(const wire::Operation& operation, std::uint64_t hash);
  bool PendBehind(const Planned& planned, Reception& to);
  void Pend(const Planned& planned, WaitFor wait_for, Reception& to);
  void AddIoWaiter(std::unique_ptr<IoWaiter> pending, WaitFor wait_for, Session& session);
  void WaitForStore(std::uint64_t id, WaitFor wait_for);
  void CountDeviceRead(IoWaiter* pending);
  void RunIoWaiter(std::uint64_t id);
  void RemoveIoWaiter(std::uint64_t id, std::vector<std::uint64_t>* next);
  WaitFor AttemptIoWaiter(IoWaiter& pending);
  void SuspendIoWaiter(EventWaiter* waiter, WaitFor wait_for, Session& session);
  void ParkEventWaiter(EventWaiter& waiter, WaitFor wait_for, Session& session);
  void EndIoWaiter(IoWaiter& pending, StatusCode code, std::string_view why);
  void ExpireIoWaiters(std::uint64_t now_ns);
  void DropIoWaiters(std::uint64_t id);
  void DropIoWaitersBelow(const Session& session, std::uint64_t frame_id);
  void RecheckIoWaiters();
  bool MaySuspend(const Session& session, const wire::Operation& operation) const;
  void Suspend(const Planned& planned, WaitFor wait_for, Reception& to);
  std::uint32_t ReplyShareOf(const Planned& planned) const;  // Of the request at hand.
  static void ForgetEventWaiters(Session& session, const EventWaiter& waiter);
  EventWaiters::Outcome Attempt(EventWaiter& waiter, bool last);
  void WakePlanned();
  void WakeGroups();
  void RecheckEventWaiters();
  void RetryMapWaiters();
  auto Attempts() {
    return [this](EventWaiter& waiter, bool last) { return Attempt(waiter, last); };
  }
  void PostAnswers(Reception& to);
  void ReleaseBelow(Session& session, std::uint64_t ack_watermark);
  std::size_t CreditToRun(const CachedReply* kept) const;
  // Runs (kOk) or ends a group that waited.
  void Resume(const MapWaiter& waiter, StatusCode code);

  const CoreId core_;
  storage::CoreStore& store_;
  HeapCover& heap_;
  const Lease& lease_;
  const Clock& clock_;
  Ownership ownership_;
  OperationMeter meter_;
  Responder responder_;
  transport::BufferPool pool_;
  transport::Worker* worker_ = nullptr;
  std::unique_ptr<RangeMoves> range_moves_;
  std::unique_ptr<Streams> streams_;
  std::unique_ptr<Sessions> sessions_;
  MapWaiters map_waiters_;
  transport::MemoryExporter* exporter_ = nullptr;
  Forwarder forwarder_;
  EventWaiters event_waiters_;
  IoWaiters io_waiters_;
  RoomWaiters room_waiters_;
  storage::Refusal refusal_;  // Of the operation that has just ended with WaitFor::kMemory.
  std::uint64_t task_wait_ = 0;
  ProcessGroups groups_;
  const Functions* functions_ = nullptr;
  std::vector<ProcessGroups::Name> groups_to_wake_;
  std::uint64_t next_expiry_ns_ = 0;  // When silent sessions are looked for again.

  RequestAtHand at_hand_;
  std::size_t rooms_behind_ = 0;  // What answers behind the present one need beside their entries.
  std::vector<std::byte> scratch_;
};

}  // namespace tidepool::daemon
