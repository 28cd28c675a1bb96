#include "storage/store.h"

namespace tidepool::storage {

void Store::KillRecord(std::uint64_t location, std::span<const std::uint32_t> segments_kept) {
  if (log_.FindExtent(location, scratch_segments_)) {
    // An extent that was extended keeps its segments, in order, at the front of the new one.
    for (std::size_t i = 0; i < scratch_segments_.size(); ++i) {
      if (i < segments_kept.size() && segments_kept[i] == scratch_segments_[i]) continue;
      if (scratch_segments_[i] != 0) log_.KillExtentSegment(scratch_segments_[i]);
    }
    log_.ForgetExtent(location);
  }
  log_.Kill(location);
}

}  // namespace tidepool::storage
