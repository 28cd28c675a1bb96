// Layout of a device: superblock, catalog, checkpoints, commit rings, segment slots.
//
//   nvm/volume -> [layout_plan] -> nvm/superblock, which records it
#pragma once

#include <cstdint>

#include "proto/base/limits.h"
#include "proto/base/result.h"
#include "storage/device/device.h"

namespace tidepool::storage {

inline constexpr std::uint64_t kSuperblockSlots = 2;
inline constexpr std::uint64_t kCatalogAreas = 2;
inline constexpr std::uint64_t kCheckpointSlotsPerCore = 2;  // A block each, written in turns.

// All offsets and sizes are bytes in whole blocks. The order on the device:
//
//   superblock 0, superblock 1, catalog area 0, catalog area 1, checkpoints of core 0 (2 blocks),
//   of core 1, ..., ring of core 0, of core 1, ..., room up to a multiple of a slot, slot 0, slot
//   1, ...
struct DeviceLayout {
  std::uint64_t device_bytes = 0;
  std::uint64_t slot_bytes = 0;
  std::uint64_t slot_count = 0;
  std::uint64_t slots_begin = 0;
  std::uint64_t checkpoints_begin = 0;
  std::uint64_t rings_begin = 0;
  std::uint64_t ring_bytes = 0;  // Ring of each core.
  std::uint64_t catalog_begin = 0;
  std::uint64_t catalog_area_bytes = 0;
  std::uint32_t cores = 0;

  std::uint64_t SlotOffset(std::uint64_t index) const { return slots_begin + index * slot_bytes; }
  std::uint64_t CheckpointOffset(std::uint32_t core, std::uint64_t which) const {
    return checkpoints_begin + (core * kCheckpointSlotsPerCore + which) * kDeviceBlockBytes;
  }
  std::uint64_t RingOffset(std::uint32_t core) const { return rings_begin + core * ring_bytes; }
  std::uint64_t CatalogOffset(std::uint64_t area) const {
    return catalog_begin + area * catalog_area_bytes;
  }

  friend bool operator==(const DeviceLayout&, const DeviceLayout&) = default;
};

struct LayoutOptions {
  std::uint32_t cores = 1;
  // A power of two of at least a block.
  std::uint64_t slot_bytes = limits::kSegmentBytes;
  // Fewest slots that are worth having, of each core.
  std::uint64_t slots_per_core_min = 16;
  // 0: 1/128 of the device, 1 to 16 MiB: 16 MiB hold 10^6 partitions.
  std::uint64_t catalog_area_bytes = 0;
  // 0: 1/16 of the device for all cores, 1 to 64 MiB for each.
  std::uint64_t ring_bytes = 0;
};

// The least that PlanLayout takes.
std::uint64_t LayoutBytesMin(const LayoutOptions& options);

// Uses `device_bytes`, rounded down to whole blocks, as well as it can.
// Errors: kResourceExhausted (fewer than LayoutBytesMin), kInvalidArgument (options out of range).
Result<DeviceLayout> PlanLayout(std::uint64_t device_bytes, const LayoutOptions& options);

// Whether nothing overlaps, all is aligned and all lies on the device, for any numbers.
bool IsSound(const DeviceLayout& layout);

}  // namespace tidepool::storage
