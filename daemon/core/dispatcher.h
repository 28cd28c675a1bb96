// From frame to answer: session, credit, term and owner are checked, operations run in stages.
//
//   proto/transport -> [daemon/core/dispatcher] -> operation_runner -> daemon/ops -> storage
//                                               -> responder -> proto/transport
//
// Groups and operations that cannot run yet are kept by map_waiters, forwarder and
// waiting_operations; answers whose commit is under way by responder.
//
// The order of HandleRequest is the protocol: what was answered before is recognised before the
// term is looked at; the lease is read before anything is applied and again before anything is
// answered.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/copies/copies.h"
#include "daemon/core/forwarder.h"
#include "daemon/core/lease.h"
#include "daemon/core/map_waiters.h"
#include "daemon/core/operation_meter.h"
#include "daemon/core/operation_runner.h"
#include "daemon/core/ownership.h"
#include "daemon/core/range_moves.h"
#include "daemon/core/reception.h"
#include "daemon/core/responder.h"
#include "daemon/core/sessions.h"
#include "daemon/core/streams.h"
#include "daemon/core/waiting_operations.h"
#include "proto/base/clock.h"
#include "proto/transport/transport.h"
#include "proto/wire/aggregator.h"
#include "proto/wire/group.h"
#include "storage/core_store.h"

namespace tidepool::daemon {

// Owner core only.
class Dispatcher : public transport::Receiver {
 public:
  // All must outlive the dispatcher. `slow_ns`: see CoreMetrics.
  Dispatcher(CoreId core, storage::CoreStore& store, HeapCover& heap, const Lease& lease,
             const Clock& clock, std::uint64_t slow_ns = 0);
  ~Dispatcher() override;
  // Where forwarded groups go; before the first frame. Must outlive the dispatcher. Null: they are
  // refused.
  void set_aggregator(wire::Aggregator* aggregator) { forwarder_.set_aggregator(aggregator); }
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
  // Partitions that are copied to and from other nodes.
  Copies& copies() { return copies_; }
  // What became of frames that the aggregator has had.
  void OnForwarded(const std::vector<wire::ForwardedOutcome>& outcomes);
  // A partition that was copied here is complete: runs what was held back for it.
  void EndImport(PartitionId partition);

  // Moves on what devices do, and the operations that wait for it. Returns how much was done.
  unsigned PollDevices();
  // Notes that a task of CoreGroup::Run has changed the partition: the task ends when all that it
  // has noted is durable.
  void NoteTaskWait(const storage::Partition& partition) {
    task_wait_ = std::max(task_wait_, responder_.CommitWaitOf(partition));
  }
  std::uint64_t TakeTaskWait() { return std::exchange(task_wait_, 0); }
  Responder& responder() { return responder_; }
  OperationRunner& runner() { return runner_; }
  WaitingOperations& waiting() { return waiting_; }

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
  // Adds the direct reads since the last call. Needed before counters are copied.
  void CountDirectReads();
  // On the heap, for clients: see heap_cover.h.
  std::size_t heap_bytes() const { return pool_.bytes() + sessions_->cached_bytes(); }
  // Groups that wait for a map or the end of a freeze.
  std::size_t map_waiters() const { return map_waiters_.size(); }

 private:
  Session* SenderOf(Bytes head, std::size_t frame_bytes, std::uint64_t received_ns,
                    wire::FrameHeader* header);
  void HandleStream(Session& session, const Status& decoded, const wire::StreamFrame& frame);
  void HandleRequest(Session& session, Bytes frame, std::uint64_t received_ns);
  bool AdmitRequest(Session& session, const CachedReply* kept, std::size_t frame_bytes);
  void ReplayGroup(std::uint16_t g, Reception& to);
  void ReplayQuiet(std::uint16_t g, Reception& to);
  void DispatchGroup(std::uint16_t g, Bytes frame, Reception& to);
  void HoldGroup(std::uint16_t g, Bytes frame, Reception& to);
  void ForwardGroup(std::uint16_t g, Bytes frame, Reception& to);
  void PlanOperations(std::uint16_t g, storage::Partition* partition, const Session& session);
  void PlanReadsAgain(std::uint16_t g, storage::Partition* partition);
  void EndGroup(std::uint16_t g, StatusCode code, Reception& to);
  void RunPlan(Reception& to);
  // `reserved_bytes`: of the answers behind this one.
  void RunOne(const Planned& planned, std::size_t reserved_bytes, std::uint64_t now_ms,
              Reception& to);
  void RetryMapWaiters();
  void PostAnswers(Reception& to);
  void ReleaseBelow(Session& session, std::uint64_t ack_watermark);
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
  OperationRunner runner_;
  WaitingOperations waiting_;
  transport::BufferPool pool_;
  transport::Worker* worker_ = nullptr;
  std::unique_ptr<RangeMoves> range_moves_;
  Copies copies_;
  std::unique_ptr<Streams> streams_;
  std::unique_ptr<Sessions> sessions_;
  MapWaiters map_waiters_;
  Forwarder forwarder_;
  std::uint64_t task_wait_ = 0;
  std::uint64_t next_expiry_ns_ = 0;  // When silent sessions are looked for again.

  RequestAtHand at_hand_;
};

}  // namespace tidepool::daemon
