#include "storage/store.h"

namespace tidepool::storage {

void Store::KillRecord(std::uint64_t location, std::span<const std::uint32_t> segments_kept) {
  const RecordHeader* record = log_.Peek(location);  // Null: on a device, so it names no extent.
  if (record != nullptr && record->type == RecordType::kPutExtent) {
    log_.ExtentSegmentsOf(*record, scratch_segments_);
    // An extent that was extended keeps its segments, in order, at the front of the new one.
    for (std::size_t i = 0; i < scratch_segments_.size(); ++i) {
      if (i < segments_kept.size() && segments_kept[i] == scratch_segments_[i]) continue;
      log_.KillExtentSegment(scratch_segments_[i]);
    }
  }
  log_.Kill(location);
}

}  // namespace tidepool::storage
