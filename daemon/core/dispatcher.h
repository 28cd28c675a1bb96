// From frame to answer: checks session, credit, term and owner, and runs operations in stages.
//
//   proto/transport -> [daemon/core/dispatcher] -> operation_runner -> daemon/ops -> storage
//                                               -> responder -> proto/transport
//
// Groups and operations that cannot run yet wait in map_waiters, forwarder and waiting_operations;
// answers with a commit under way wait in responder.
//
// The order of HandleRequest is the protocol: earlier answers are recognised before the term is
// checked; the lease is read before anything is applied and again before anything is answered.
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
  // All must outlive the dispatcher. `slow_ns`: see CoreMetrics. `alarms`: see Copies.
  Dispatcher(CoreId core, storage::CoreStore& store, HeapCover& heap, const Lease& lease,
             const Clock& clock, std::uint64_t slow_ns = 0, CopyAlarms* alarms = nullptr);
  ~Dispatcher() override;
  // Sets the destination of forwarded groups; before the first frame. Must outlive the dispatcher.
  // Null: forwarded groups are refused.
  void set_aggregator(wire::Aggregator* aggregator) { forwarder_.set_aggregator(aggregator); }
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // Start comes later than the constructor, because a worker needs its receiver first. Stop ends
  // all sessions, before the worker goes.
  void Start(transport::Worker* worker);
  void Stop();

  // transport::Receiver
  void OnFrame(Bytes frame) override;
  void OnFrameParts(Bytes head, Bytes body) override;
  void OnPeerLost(transport::Endpoint* endpoint, const Status& why) override;

  // Installs a newer map and runs the groups that waited for it. `may_grant_durable`: as
  // Ownership::Install.
  Status InstallMap(placement::PlacementMapPtr map, NodeId self, bool may_grant_durable = true);

  // Ends a freeze (ownership().Freeze) of {partition, term} without a move: runs the waiting groups
  // in order. Does nothing if a map has ended the freeze meanwhile. After a move, InstallMap
  // answers the waiting groups and the operations that wait in the partition.
  void Thaw(PartitionId partition, Term term);

  // Moves of ordered partitions' ranges between this node's cores.
  RangeMoves& range_moves() { return *range_moves_; }
  // Copies of partitions from and to other nodes.
  Copies& copies() { return copies_; }
  // Handles the outcomes of frames that the aggregator had.
  void OnForwarded(const std::vector<wire::ForwardedOutcome>& outcomes);
  // Completes a partition that was copied here: runs the groups that waited for it.
  void EndImport(PartitionId partition);

  // Makes progress on devices and on the operations that wait for them. Returns the amount of work
  // done.
  unsigned PollDevices();
  // Records that a task of CoreGroup::Run has changed the partition. The task ends when all
  // recorded changes are durable.
  void NoteTaskWait(const storage::Partition& partition) {
    task_wait_.position = std::max(task_wait_.position, responder_.CommitWaitOf(partition));
    if (partition.options().has_replicas) copies_.AddWaits(partition.id(), &task_wait_.copies);
  }
  struct TaskWait {
    std::uint64_t position = 0;
    CopyWaits copies = {};
  };
  TaskWait TakeTaskWait() { return std::exchange(task_wait_, {}); }
  Responder& responder() { return responder_; }
  OperationRunner& runner() { return runner_; }
  WaitingOperations& waiting() { return waiting_; }

  // Sends stream parts within the windows; returns the number of frames.
  unsigned SendStreamParts() { return streams_->SendParts(limits::kStreamPartsPerPoll); }

  // Ends groups that waited past their deadline and silent sessions. Call every few milliseconds.
  void OnTimer(std::uint64_t now_ns);
  // Returns when OnTimer next has an answer to send; never: the largest number. Walks over the
  // groups that wait for a map, of which there are seldom any.
  std::uint64_t NextDeadlineNs() const;

  Sessions& sessions() { return *sessions_; }
  Ownership& ownership() { return ownership_; }
  OperationMeter& meter() { return meter_; }
  // Adds the direct reads since the last call. Call it before counters are copied.
  void CountDirectReads();
  // Returns the heap used for clients; see heap_cover.h.
  std::size_t heap_bytes() const { return pool_.bytes() + sessions_->cached_bytes(); }
  // Number of groups that wait for a map or the end of a freeze.
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
  // `reserved_bytes`: bytes of the answers behind this answer.
  void RunOne(const Planned& planned, std::size_t reserved_bytes, std::uint64_t now_ms,
              Reception& to);
  void RetryMapWaiters();
  void PostAnswers(Reception& to);
  void ReleaseBelow(Session& session, std::uint64_t ack_watermark);
  // Runs (kOk) or ends a waiting group.
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
  TaskWait task_wait_;
  std::uint64_t copies_seen_ = 0;     // Copies::progress at the last look.
  std::uint64_t next_expiry_ns_ = 0;  // Time of the next search for silent sessions.

  RequestAtHand at_hand_;
};

}  // namespace tidepool::daemon
