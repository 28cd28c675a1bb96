// What the dispatcher counts for metrics, slow log and hot keys (metrics/core_metrics.h).
#include <utility>

#include "daemon/core/dispatcher.h"
#include "proto/base/key_hash.h"

namespace tidepool::daemon {

void Dispatcher::CountPlan(const Session& session) {
  if (session.uncounted) return;
  metrics_.SampleEach(at_hand_.plan.size(), [this](std::size_t i) {
    const Planned& planned = at_hand_.plan[i];
    const wire::OpcodeInfo& info = wire::InfoOf(planned.operation->opcode);
    if (!info.keyed) return;
    metrics_.hot_keys().Add(planned.partition->id().space(), planned.hash, planned.operation->key,
                            info.mutates);
  });
}

void Dispatcher::CountLocal(const storage::Partition& partition, const wire::Operation& operation) {
  ++counters_.operations;
  const NamespaceId space = partition.id().space();
  const wire::OpcodeInfo& info = wire::InfoOf(operation.opcode);
  ++metrics_.Of(space).operations[static_cast<std::size_t>(operation.opcode)];
  metrics_.SampleEach(1, [&](std::size_t) {
    if (!info.keyed) return;
    metrics_.hot_keys().Add(space, KeyHash(operation.key), operation.key, info.mutates);
  });
}

void Dispatcher::NoteSlow(NamespaceId space, wire::Opcode opcode, std::size_t operations, Bytes key,
                          SlowReason reason, std::uint64_t duration_ns) {
  SlowEntry entry;
  entry.at_ms = store_.NowMs();
  entry.duration_ns = duration_ns;
  entry.space = space;
  entry.opcode = opcode;
  entry.operations = static_cast<std::uint32_t>(operations);
  entry.reason = reason;
  metrics_.slow_log().Add(entry, key);
}

// Answered, but for what is held until it is durable: that counts when it goes out.
void Dispatcher::CountFrame(const Reception& to) {
  const std::uint64_t duration_ns = clock_.MonotonicNs() - to.received_ns;
  latency_ns_.Record(duration_ns);
  if (to.held) [[unlikely]]
    return RecordAwaiting(to.received_ns);
  metrics_.EndFrame(duration_ns);
  if (metrics_.IsSlow(duration_ns) && !at_hand_.plan.empty()) [[unlikely]] {
    const Planned& first = at_hand_.plan.front();
    NoteSlow(first.partition->id().space(), first.operation->opcode, at_hand_.plan.size(),
             first.operation->key, SlowReason::kWork, duration_ns);
  }
}

// Of the plan, whose answers have just been held.
void Dispatcher::RecordAwaiting(std::uint64_t received_ns) {
  if (at_hand_.plan.empty()) return;
  const Planned& first = at_hand_.plan.front();
  CommitWaiter& held = commit_waiters_.newest();
  held.received_ns = received_ns;
  held.space = first.partition->id().space();
  held.opcode = first.operation->opcode;
  held.operations = static_cast<std::uint32_t>(at_hand_.plan.size());
}

// By the namespace of its first operation: frames of several with one of `sync` are rare.
void Dispatcher::CountAwaiting(const CommitWaiter& held) {
  if (held.opcode == wire::Opcode::kNone) return;
  const std::uint64_t duration_ns = clock_.MonotonicNs() - held.received_ns;
  metrics_.Of(held.space).frames.Record(duration_ns);
  if (!metrics_.IsSlow(duration_ns)) return;
  NoteSlow(held.space, held.opcode, held.operations, {}, SlowReason::kCommit, duration_ns);
}

// Answered. One that waited for a change before is no measure of the device.
void Dispatcher::CountIoWaiters(const IoWaiter& pending) {
  if (pending.received_ns == 0) return;
  const std::uint64_t duration_ns = clock_.MonotonicNs() - pending.received_ns;
  const NamespaceId space = pending.operation.partition.space();
  const wire::Operation& operation = pending.operation.operation;
  metrics_.Of(space).waits.Record(duration_ns);
  if (!metrics_.IsSlow(duration_ns)) return;
  NoteSlow(space, operation.opcode, 1, operation.key, SlowReason::kStore, duration_ns);
}

}  // namespace tidepool::daemon
