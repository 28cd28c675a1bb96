#include "client/direct/mapped_arenas.h"

#include <sys/mman.h>

#include "client/direct/reader_slot.h"
#include "proto/base/bytes.h"

namespace tidepool::internal {

std::shared_ptr<MappedArenas> MappedArenas::Make(const transport::NodeMemory& first,
                                                 const Clock& clock) {
  void* const base = mmap(nullptr, first.range_bytes, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  return std::shared_ptr<MappedArenas>(
      new MappedArenas(static_cast<std::byte*>(base), first, clock));
}

MappedArenas::MappedArenas(std::byte* base, const transport::NodeMemory& first, const Clock& clock)
    : base_(base),
      range_bytes_(first.range_bytes),
      block_shift_(first.block_shift),
      map_(base, first.range_bytes, static_cast<int>(first.block_shift)) {
  for (auto& slot : slots_) slot = std::make_unique<Slot>(map_, clock);
}

MappedArenas::~MappedArenas() { munmap(base_, range_bytes_); }

bool MappedArenas::Add(const transport::NodeMemory& memory, std::uint64_t bytes_max) {
  if (memory.range_bytes != range_bytes_ || memory.block_shift != block_shift_) return false;
  std::byte* const at = base_ + memory.begin;
  const auto [piece, is_new] = pieces_.try_emplace(memory.begin, 0);
  if (is_new) {
    if (mapped_bytes() + memory.bytes > bytes_max ||
        mmap(at, memory.bytes, PROT_READ, MAP_SHARED | MAP_FIXED, memory.descriptor, 0) ==
            MAP_FAILED) {
      pieces_.erase(piece);
      return false;
    }
    mapped_bytes_.store(mapped_bytes() + memory.bytes, std::memory_order_relaxed);
  }
  // Whole blocks only: memory behind them has no pages yet.
  const std::uint64_t ready = memory.ready_bytes >> block_shift_ << block_shift_;
  if (ready <= piece->second) return true;
#ifdef MADV_POPULATE_READ
  // A first touch costs 2.7 us each, this 0.1 us; where the kernel is too old for it, they do.
  (void)madvise(at + piece->second, ready - piece->second, MADV_POPULATE_READ);
#endif
  map_.NoteMapped(memory.begin + piece->second, ready - piece->second);
  piece->second = ready;
  return true;
}

MappedArenas::ReaderLease::ReaderLease(MappedArenas& arenas) {
  const std::size_t first = FirstReaderSlot();
  for (std::size_t i = 0; i < 2; ++i) {
    Slot& slot = *arenas.slots_[(first + i) % kSlots];
    if (slot.busy.test_and_set(std::memory_order_acquire)) continue;
    busy_ = &slot.busy;
    reader_ = &slot.reader;
    slot_ = (first + i) % kSlots;
    return;
  }
}

}  // namespace tidepool::internal
