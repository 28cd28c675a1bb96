#include "proto/wire/receipt.h"

#include <algorithm>

namespace tidepool::wire {
namespace {

// Of a core without a mark it is endless.
std::uint64_t CheckpointAgeMs(const CheckpointStamp& mark) {
  return mark.durable_at_ms == 0 ? ~std::uint64_t{0} : mark.at_ms - mark.durable_at_ms;
}

}  // namespace

void Receipt::Add(const Receipt& other) {
  if (other.level == ReceiptLevel::kNone) return;
  if (level == ReceiptLevel::kNone || CheckpointAgeMs(other.mark) > CheckpointAgeMs(mark))
    mark = other.mark;
  level = level == ReceiptLevel::kNone ? other.level : std::min(level, other.level);
}

}  // namespace tidepool::wire
