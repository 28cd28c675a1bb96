#include "daemon/core/operation_meter.h"

#include <algorithm>
#include <new>

#include "proto/base/check.h"
#include "proto/base/key_hash.h"
#include "proto/transport/transport.h"
#include "proto/wire/direct_counts.h"

namespace tidepool::daemon {
namespace {

using wire::DirectCounts;

// Direct reads: clients write them into memory that they share with this core, or report them
// with a question for a view (show_ops.cc).

// Adds up all slots. The client writes there meanwhile: a sum may lack the newest reads.
DirectReads SumOf(const DirectCounts& counts, std::uint32_t slots, std::uint32_t entry) {
  DirectReads sum;
  for (std::size_t slot = 0; slot < DirectCounts::kSlots; ++slot) {
    if ((slots >> slot & 1) == 0) continue;
    sum.gets += counts.count[slot][entry].gets.load(std::memory_order_relaxed);
    sum.looks += counts.count[slot][entry].looks.load(std::memory_order_relaxed);
  }
  return sum;
}

// Returns 0 for counts that shrink: their client is broken.
std::uint64_t Since(std::uint64_t now, std::uint64_t before) {
  return now > before ? now - before : 0;
}

}  // namespace

void OperationMeter::SamplePlan(const std::vector<Planned>& plan, const Session& session) {
  if (session.uncounted) return;
  metrics_.SampleEach(plan.size(), [this, &plan](std::size_t i) {
    const Planned& planned = plan[i];
    const wire::OpcodeInfo& info = wire::InfoOf(planned.operation->opcode);
    if (!info.keyed) return;
    metrics_.hot_keys().Add(planned.partition->id().space(), planned.hash, planned.operation->key,
                            info.mutates);
  });
}

void OperationMeter::CountFrame(const Reception& to, const std::vector<Planned>& plan,
                                CommitWaiter* held) {
  const std::uint64_t duration_ns = clock_.MonotonicNs() - to.received_ns;
  latency_ns_.Record(duration_ns);
  if (held != nullptr) [[unlikely]] {
    TP_CHECK(held->opcode == wire::Opcode::kNone);
    if (plan.empty()) return;
    held->received_ns = to.received_ns;
    held->space = plan.front().partition->id().space();
    held->opcode = plan.front().operation->opcode;
    held->operations = static_cast<std::uint32_t>(plan.size());
    return;
  }
  metrics_.EndFrame(duration_ns);
  if (metrics_.IsSlow(duration_ns) && !plan.empty()) [[unlikely]] {
    const Planned& first = plan.front();
    RecordSlow(first.partition->id().space(), first.operation->opcode, plan.size(),
               first.operation->key, SlowReason::kWork, duration_ns);
  }
}

// Uses the namespace of the first operation: frames with several namespaces, one of them `sync`,
// are rare.
void OperationMeter::CountCommitted(const CommitWaiter& waiter) {
  if (waiter.opcode == wire::Opcode::kNone) return;
  const std::uint64_t duration_ns = clock_.MonotonicNs() - waiter.received_ns;
  metrics_.Of(waiter.space).frames.Record(duration_ns);
  if (!metrics_.IsSlow(duration_ns)) return;
  RecordSlow(waiter.space, waiter.opcode, waiter.operations, {}, SlowReason::kCommit, duration_ns);
}

void OperationMeter::CountWaited(const IoWaiter& waiter) {
  // An operation that waited for a change before is no measure of the device.
  if (waiter.received_ns == 0) return;
  const std::uint64_t duration_ns = clock_.MonotonicNs() - waiter.received_ns;
  const NamespaceId space = waiter.operation.partition.space();
  const wire::Operation& operation = waiter.operation.operation;
  metrics_.Of(space).waits.Record(duration_ns);
  if (!metrics_.IsSlow(duration_ns)) return;
  RecordSlow(space, operation.opcode, 1, operation.key, SlowReason::kStore, duration_ns);
}

void OperationMeter::CountLocal(const storage::Partition& partition,
                                const wire::Operation& operation) {
  ++counters_.operations;
  const NamespaceId space = partition.id().space();
  const wire::OpcodeInfo& info = wire::InfoOf(operation.opcode);
  ++metrics_.Of(space).operations[static_cast<std::size_t>(operation.opcode)];
  metrics_.SampleEach(1, [&](std::size_t) {
    if (!info.keyed) return;
    metrics_.hot_keys().Add(space, KeyHash(operation.key), operation.key, info.mutates);
  });
}

void OperationMeter::CountDirectReads(Session& session) {
  if (session.endpoint == nullptr) return;
  const Bytes memory = session.endpoint->peer_memory();
  if (memory.size() < sizeof(DirectCounts)) return;
  const auto& counts = *std::launder(reinterpret_cast<const DirectCounts*>(memory.data()));
  const std::uint32_t entries =
      std::min(counts.entries.load(std::memory_order_acquire), DirectCounts::kEntries);
  const std::uint32_t slots = counts.slots.load(std::memory_order_relaxed);
  for (std::uint32_t i = 1; i < entries; ++i) {
    const DirectCounts::Entry& entry = counts.entry[i];
    if (entry.session.load(std::memory_order_relaxed) != session.id.value() ||
        entry.core.load(std::memory_order_relaxed) != core_.value()) {
      continue;
    }
    const DirectReads now = SumOf(counts, slots, i);
    DirectReads& before = session.direct_reads[i];
    const DirectReads since = {Since(now.gets, before.gets), Since(now.looks, before.looks)};
    before = now;
    if (since.gets == 0 && since.looks == 0) continue;
    AddDirectReads(session, NamespaceId(entry.space.load(std::memory_order_relaxed)), since);
  }
}

void OperationMeter::AddDirectReads(const Session& session, NamespaceId space,
                                    const DirectReads& reads) {
  const placement::PlacementMapPtr& map = ownership_.map();
  const auto found = map == nullptr ? nullptr : map->Find(space);
  // Neither a dropped namespace nor a wrong number gets counters.
  if (session.uncounted || found == nullptr) return;
  const wire::Opcode look =
      found->kind == Kind::kBloom ? wire::Opcode::kBloomContains : wire::Opcode::kContains;
  SpaceCounters& counters = metrics_.Of(space);
  counters.operations[static_cast<std::size_t>(wire::Opcode::kGet)] += reads.gets;
  counters.operations[static_cast<std::size_t>(look)] += reads.looks;
  counters.direct_reads += reads.gets + reads.looks;
  counters_.direct_reads += reads.gets + reads.looks;
}

void OperationMeter::RecordSlow(NamespaceId space, wire::Opcode opcode, std::size_t operations,
                                Bytes key, SlowReason reason, std::uint64_t duration_ns) {
  SlowEntry entry;
  entry.at_ms = store_.NowMs();
  entry.duration_ns = duration_ns;
  entry.space = space;
  entry.opcode = opcode;
  entry.operations = static_cast<std::uint32_t>(operations);
  entry.reason = reason;
  metrics_.slow_log().Add(entry, key);
}

}  // namespace tidepool::daemon
