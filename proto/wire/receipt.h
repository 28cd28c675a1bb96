// How safe the changes of a call are, of which each answer tells its own.
#pragma once

#include <cstdint>

#include "proto/wire/frame.h"

namespace tidepool::wire {

// In the order of what they outlive, as tidepool::Receipt and tidepool.v1.Receipt have them.
enum class ReceiptLevel : std::uint8_t { kNone = 0, kMemory = 1, kNextCheckpoint = 2, kDevice = 3 };

struct Receipt {
  ReceiptLevel level = ReceiptLevel::kNone;
  CheckpointStamp checkpoint;

  // Another change: the least level counts, and the times of the core whose checkpoint is oldest.
  void Add(const Receipt& other);
};

}  // namespace tidepool::wire
