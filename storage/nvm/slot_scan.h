// What lies in a device's slots, by the headers of its segments: there is no other table of them.
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

// The header of a segment of a durable stream, whatever it is worth.
struct FoundSegment {
  std::uint64_t slot = 0;  // Of the device; of a volume's, of the volume.
  std::uint64_t number = 0;
  std::uint16_t core = 0;
  std::uint8_t stream = 0;
  SegmentKind kind = SegmentKind::kLog;
};

// Of all slots those with a sound header of a durable stream, read with many requests under way:
// 250,000 slots (500 GB) in some 3 s at 83,000 reads per second. A header is 64 bytes, which no
// device tears, so a damaged one is what was never one. Waits; not for owner cores.
// Errors: kDeviceError, and those of Device::OpenQueue.
Result<std::vector<FoundSegment>> ScanSegmentHeaders(Device* device, const DeviceLayout& layout);

}  // namespace tidepool::storage
