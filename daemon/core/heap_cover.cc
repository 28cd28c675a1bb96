#include "daemon/core/heap_cover.h"

namespace tidepool::daemon {

void HeapCover::Fit(std::uint64_t wanted) {
  const std::uint64_t block = pool_.block_bytes();
  const std::uint64_t beyond = wanted > free_bytes_ ? wanted - free_bytes_ : 0;
  const std::uint64_t least = (beyond + block - 1) / block;
  while (blocks_ < least && pool_.Promise(1)) ++blocks_;
  if (blocks_ <= least + 1) return;
  pool_.Unpromise(blocks_ - least - 1);
  blocks_ = least + 1;
}

}  // namespace tidepool::daemon
