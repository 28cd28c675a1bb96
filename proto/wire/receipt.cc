#include "proto/wire/receipt.h"

#include <algorithm>

namespace tidepool::wire {
namespace {

// Of a core without a checkpoint it is endless.
std::uint64_t CheckpointAgeMs(const CheckpointStamp& checkpoint) {
  return checkpoint.durable_at_ms == 0 ? ~std::uint64_t{0}
                                       : checkpoint.at_ms - checkpoint.durable_at_ms;
}

}  // namespace

void Receipt::Add(const Receipt& other) {
  if (other.level == ReceiptLevel::kNone) return;
  if (level == ReceiptLevel::kNone ||
      CheckpointAgeMs(other.checkpoint) > CheckpointAgeMs(checkpoint))
    checkpoint = other.checkpoint;
  level = level == ReceiptLevel::kNone ? other.level : std::min(level, other.level);
}

}  // namespace tidepool::wire
