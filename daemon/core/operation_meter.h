// Counts operations and frames of one core, for metrics, slow log and hot keys.
//
//   daemon/core/dispatcher -> [operation_meter] -> daemon/metrics/core_metrics
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/core/commit_waiters.h"
#include "daemon/core/io_waiters.h"
#include "daemon/core/ownership.h"
#include "daemon/core/reception.h"
#include "daemon/core/session.h"
#include "daemon/metrics/core_metrics.h"
#include "daemon/ops/operation.h"
#include "proto/base/clock.h"
#include "proto/base/histogram.h"
#include "proto/wire/group.h"
#include "storage/core_store.h"

namespace tidepool::daemon {

struct OperationCounters {
  // Users' operations, each counted once, also if it waits or is sent again.
  std::uint64_t operations = 0;
  std::uint64_t direct_reads = 0;  // In addition: reads by clients in this core's memory.
  std::uint64_t frames = 0;
  std::uint64_t malformed_frames = 0;  // Frames of unknown senders: dropped.
};

// Owner core only. Costs a few increments per operation and one reading of the clock per frame.
//
// Invariant: an operation counts once, when its frame is planned; a frame counts once, when its
// answers are posted, or when their commit is durable.
class OperationMeter {
 public:
  // All must outlive the meter. `slow_ns`: see CoreMetrics.
  OperationMeter(CoreId core, storage::CoreStore& store, const Ownership& ownership,
                 const Clock& clock, std::uint64_t slow_ns)
      : core_(core), store_(store), ownership_(ownership), clock_(clock), metrics_(slow_ns) {}
  OperationMeter(const OperationMeter&) = delete;
  OperationMeter& operator=(const OperationMeter&) = delete;

  OperationCounters& counters() { return counters_; }
  const OperationCounters& counters() const { return counters_; }
  CoreMetrics& metrics() { return metrics_; }
  const CoreMetrics& metrics() const { return metrics_; }
  // Returns the times from the receipt of a frame to the post of its answers.
  const Histogram& latency_ns() const { return latency_ns_; }
  void ResetLatency() { latency_ns_.Clear(); }

  // Counts of one group while it is planned.
  struct GroupCounts {
    SpaceCounters& space;
    const bool counted;  // False for tools.
    std::uint32_t users = 0;
    std::uint32_t reads = 0;

    void Add(wire::Opcode opcode) {
      const std::uint32_t counts = counted && IsUsers(opcode) ? 1 : 0;
      users += counts;
      reads += ReadsRecords(opcode) ? counts : 0;
      space.operations[static_cast<std::size_t>(opcode)] += counts;
    }
  };
  GroupCounts BeginGroup(NamespaceId space, const Session& session) {
    return {metrics_.Of(space), !session.uncounted};
  }
  // Counts a group of `operations` that will run on the partition now.
  void EndGroup(const GroupCounts& counts, std::uint32_t operations,
                storage::Partition& partition) {
    if (counts.users > 0) metrics_.AddToFrame(&counts.space);
    counters_.operations += counts.users;
    partition.CountOperations(operations);
    partition.CountReads(counts.reads);
  }
  // Samples hot keys of operations that have run.
  void SamplePlan(const std::vector<Planned>& plan, const Session& session);
  // Counts a frame. `held`: its answers, if they wait for a commit; the frame counts later then,
  // by CountCommitted.
  void CountFrame(const Reception& to, const std::vector<Planned>& plan, CommitWaiter* held);
  void CountCommitted(const CommitWaiter& waiter);
  // Counts an operation that has waited for a device or for memory, and is answered.
  void CountWaited(const IoWaiter& waiter);
  // Counts a user's operation that came through the mailbox and has run.
  void CountLocal(const storage::Partition& partition, const wire::Operation& operation);
  void CountDeviceRead(const storage::Partition& partition) {
    ++metrics_.Of(partition.id().space()).device_reads;
  }

  // Adds the direct reads of the session's client since the last call.
  void CountDirectReads(Session& session);
  // Adds direct reads that the client reports.
  void AddDirectReads(const Session& session, NamespaceId space, const DirectReads& reads);

 private:
  void RecordSlow(NamespaceId space, wire::Opcode opcode, std::size_t operations, Bytes key,
                  SlowReason reason, std::uint64_t duration_ns);

  const CoreId core_;
  storage::CoreStore& store_;
  const Ownership& ownership_;
  const Clock& clock_;
  OperationCounters counters_;
  CoreMetrics metrics_;
  Histogram latency_ns_;
};

}  // namespace tidepool::daemon
