// Many direct reads at once: their cache misses overlap.
#include <algorithm>

#include "client/direct/direct_reader.h"
#include "client/direct/racing_loads.h"

namespace tidepool::internal {

using storage::Bucket;
using storage::SegmentEntry;

const Bucket* DirectReader::PrefetchBucket(const Item& item) const {
  if (!item.partition->usable()) return nullptr;
  if (item.partition->view_.split_blocks != 0) {
    PrefetchLanes(*item.partition, item.hash);
    return nullptr;
  }
  unsigned depth = 0;
  std::uint64_t missing = 0;
  const Bucket* const home =
      HomeOf(*item.partition, item.hash & item.partition->view_.hash_mask, &depth, &missing);
  __builtin_prefetch(home);
  return home;
}

// A guess: of the first slot that has the tag.
void DirectReader::PrefetchRecord(const Item& item, const Bucket* home) const {
  if (home == nullptr) return;
  const DirectPartition& partition = *item.partition;
  const std::uint64_t hash = item.hash & partition.view_.hash_mask;
  const std::uint64_t header = racing::Acquire(home->header);
  const unsigned matches =
      racing::MatchesOf(*home, storage::TagOf(hash, storage::bucket::TagShift(header)));
  if (matches == 0) return;
  const std::uint64_t location =
      storage::SlotLocation(racing::Relaxed(home->slots[__builtin_ctz(matches)]));
  std::uint64_t missing = 0;
  const SegmentEntry* const segment = SegmentOf(partition, location, &missing);
  if (segment == nullptr) return;
  const std::uint64_t segment_bytes = 1ull << partition.view_.block_shift;
  const std::uint64_t offset = location * storage::kRecordAlign & (segment_bytes - 1);
  const std::byte* const at = map_.At(racing::Relaxed(segment->frame) + offset, 1);
  if (at == nullptr) return;
  __builtin_prefetch(at);
  __builtin_prefetch(at + 64);
}

void DirectReader::MultiGet(std::span<Item> items) {
  for (std::size_t begin = 0; begin < items.size(); begin += kStage) {
    const std::span<Item> stage = items.subspan(begin, std::min(kStage, items.size() - begin));
    std::array<std::uint64_t, kStage> leases{};
    std::array<const Bucket*, kStage> homes{};
    for (std::size_t i = 0; i < stage.size(); ++i) homes[i] = PrefetchBucket(stage[i]);
    for (std::size_t i = 0; i < stage.size(); ++i) PrefetchRecord(stage[i], homes[i]);
    for (std::size_t i = 0; i < stage.size(); ++i) {
      Item& item = stage[i];
      item.read = Run(*item.partition, item.key, item.hash, item.value_wanted ? &item.to : nullptr,
                      &leases[i]);
    }
    TIDEPOOL_STEP(10);
    const std::uint64_t now_ns = clock_.MonotonicNs();
    for (std::size_t i = 0; i < stage.size(); ++i) {
      stage[i].read = Finish(*stage[i].partition, stage[i].read, leases[i], now_ns);
    }
  }
}

}  // namespace tidepool::internal
