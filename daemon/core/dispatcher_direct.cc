// Counts of direct reads: clients write them into memory that they share with this core, or report
// them with a question for a view (show_ops.cc).
#include <new>

#include "daemon/core/dispatcher.h"
#include "proto/wire/direct_counts.h"

namespace tidepool::daemon {
namespace {

using wire::DirectCounts;

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

void Dispatcher::CountDirectReads() {
  sessions_->ForEach([this](Session& session) { CountDirectReads(session); });
}

void Dispatcher::CountDirectReads(Session& session) {
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
    CountDirect(session, NamespaceId(entry.space.load(std::memory_order_relaxed)), since);
  }
}

void Dispatcher::CountDirect(const Session& session, NamespaceId space, const DirectReads& reads) {
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

void Dispatcher::OnDirectReads(SessionId session, const storage::Partition& partition,
                               const DirectReads& reads) {
  if (Session* found = sessions_->Find(session); found != nullptr) {
    CountDirect(*found, partition.id().space(), reads);
  }
}

}  // namespace tidepool::daemon
