// Publishes a core's lease and the places of its partitions to direct readers.
#include <atomic>
#include <bit>

#include "storage/core_store.h"

namespace tidepool::storage {

void CoreStore::ShowLease(std::uint64_t until_ns, std::uint64_t now_ns,
                          absl::FunctionRef<bool(const Partition&)> is_granted) {
  if (shown_lease_ns() <= now_ns) {
    for (auto& [id, partition] : partitions_) {
      partition->CloseGuard();
      if (!partition->frozen() && is_granted(*partition)) partition->OpenGuard();
    }
  }
  std::atomic_ref(root_->word).store(until_ns, std::memory_order_release);
}

void CoreStore::ShowWallOffset(std::int64_t offset_ns) {
  std::atomic_ref(root_->wall_offset_ns)
      .store(static_cast<std::uint64_t>(offset_ns), std::memory_order_relaxed);
}

void CoreStore::EndLease() {
  std::atomic_ref(root_->word).store(0, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

std::uint64_t CoreStore::shown_lease_ns() const {
  return std::atomic_ref(root_->word).load(std::memory_order_relaxed);
}

std::optional<DirectView> CoreStore::ViewOf(const Partition& partition) const {
  const std::uint64_t guard = partition.guard();
  if (!partition.MayBeReadDirectly() || guard == kGuardGone) return std::nullopt;
  DirectView view{};
  view.core_root = memory_.OffsetOf(root_);
  view.root = memory_.OffsetOf(partition.root_);
  view.serving_epoch = ServingEpochOf(guard);
  if (partition.kind() == Kind::kBloom) view.split_blocks = partition.options().filter.split_blocks;
  view.hash_mask = options_.hash_mask;
  view.term = partition.term().value();
  view.partition = partition.id().value();
  view.block_shift = static_cast<std::uint8_t>(std::countr_zero(memory_.block_bytes()));
  if (log_.spills()) view.flags |= DirectView::kMayLeave;
  if (partition.options().update_in_place) view.flags |= DirectView::kInPlace;
  return view;
}

}  // namespace tidepool::storage
