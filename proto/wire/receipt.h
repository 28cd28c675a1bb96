// Safety of the changes of a call, from the stamp of each answer.
#pragma once

#include <cstdint>

#include "proto/wire/frame.h"

namespace tidepool::wire {

// Ordered by what they survive, as in tidepool::Receipt and tidepool.v1.Receipt.
enum class ReceiptLevel : std::uint8_t { kNone = 0, kMemory = 1, kNextCheckpoint = 2, kDevice = 3 };

struct Receipt {
  ReceiptLevel level = ReceiptLevel::kNone;
  CheckpointStamp checkpoint;

  // Adds another change: keeps the least level, and the times of the core with the oldest
  // checkpoint.
  void Add(const Receipt& other);
};

}  // namespace tidepool::wire
