// Counts of the reads that a client makes in a daemon's memory by itself. The client counts in
// memory that daemons of its machine can read.
//
//   client/direct/direct_space => [direct_counts] => daemon/core/operation_meter
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tidepool::wire {

// Layout of the memory that a client shares, zeroed at its start. The client's lock guards new
// entries. Each count has one writer at a time: the thread that holds the slot. Counts only grow.
//
// A daemon reads only, and trusts no number: an entry counts if its session and core are the
// reader's own.
struct DirectCounts {
  static constexpr std::size_t kSlots = 16;
  // Namespaces times cores that a client can count apart. Reads beyond them go to entry 0, which
  // belongs to no daemon.
  static constexpr std::uint32_t kEntries = 512;

  struct Entry {
    std::atomic<std::uint64_t> session;
    std::atomic<std::uint32_t> space;  // NamespaceId.
    std::atomic<std::uint32_t> core;
  };
  struct Count {
    std::atomic<std::uint64_t> gets;
    std::atomic<std::uint64_t> looks;  // Reads without a value.
  };

  std::atomic<std::uint32_t> entries;  // Number of filled entries.
  std::atomic<std::uint32_t> slots;    // A bit for each slot that has counted.
  alignas(64) std::array<Entry, kEntries> entry;
  alignas(64) std::array<std::array<Count, kEntries>, kSlots> count;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(DirectCounts::Entry) == 16 && sizeof(DirectCounts::Count) == 16);

// Adds one. REQUIRES: the caller alone writes this slot now.
inline void CountDirectRead(DirectCounts& counts, std::size_t slot, std::uint32_t entry,
                            bool is_get) {
  DirectCounts::Count& count = counts.count[slot][entry];
  std::atomic<std::uint64_t>& to = is_get ? count.gets : count.looks;
  const std::uint64_t before = to.load(std::memory_order_relaxed);
  to.store(before + 1, std::memory_order_relaxed);
  // Readers touch no page of a slot that was never used.
  if (before == 0) [[unlikely]]
    counts.slots.fetch_or(1u << slot, std::memory_order_relaxed);
}

}  // namespace tidepool::wire
