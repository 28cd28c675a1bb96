#include "client/direct/range_routing.h"

#include <utility>

#include "client/direct/reader_slot.h"

namespace tidepool::internal {

KeyBounds KeyBounds::Of(const placement::Ranges& ranges, std::uint32_t partition) {
  KeyBounds bounds{ranges.BeginOf(partition), std::nullopt};
  if (const std::string* end = ranges.EndOf(partition)) bounds.end = *end;
  return bounds;
}

bool KeyBounds::Hold(Bytes key) const {
  const std::string_view text = AsText(key);  // Compares unsigned bytes, as Ranges does.
  return text >= begin && (!end.has_value() || text < *end);
}

void RangeRouting::Set(std::shared_ptr<const placement::Ranges> ranges) {
  const std::lock_guard lock(mutex_);
  if (newest_ == ranges) return;
  newest_ = std::move(ranges);
  version_.fetch_add(1, std::memory_order_release);
}

std::optional<std::uint32_t> RangeRouting::IndexOf(Bytes key) {
  const std::uint64_t version = version_.load(std::memory_order_acquire);
  if (version == 0) return std::nullopt;
  Slot& slot = slots_[FirstReaderSlot() % slots_.size()];
  if (slot.busy.test_and_set(std::memory_order_acquire)) return std::nullopt;
  if (slot.version != version) {
    const std::lock_guard lock(mutex_);
    slot.ranges = newest_;
    slot.version = version;
  }
  const std::uint32_t index = slot.ranges->IndexOf(key);
  slot.busy.clear(std::memory_order_release);
  return index;
}

}  // namespace tidepool::internal
