// Finds the segments in a device's slots by their headers: there is no other table of them.
//
//   nvm/volume at its start -> [slot_scan] -> device
#pragma once

#include <cstdint>
#include <vector>

#include "proto/base/result.h"
#include "storage/device/device.h"
#include "storage/layout.h"
#include "storage/nvm/layout_plan.h"

namespace tidepool::storage {

// Header of a segment of a durable stream, valid or not for recovery.
struct FoundSegment {
  std::uint64_t slot = 0;  // Slot number of the device; in a volume, of the volume.
  std::uint64_t number = 0;
  std::uint16_t core = 0;
  std::uint8_t stream = 0;
  SegmentKind kind = SegmentKind::kLog;
};

// Returns the slots with a sound header of a durable stream. Many reads are under way at once:
// 250,000 slots (500 GB) take some 3 s at 83,000 reads per second. A header is 64 bytes, which no
// device tears: a damaged header was never a header. Waits; not for owner cores. Errors:
// kDeviceError, and as Device::OpenQueue.
Result<std::vector<FoundSegment>> ScanSegmentHeaders(Device* device, const DeviceLayout& layout);

}  // namespace tidepool::storage
