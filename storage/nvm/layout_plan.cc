#include "storage/nvm/layout_plan.h"

#include <algorithm>
#include <bit>
#include <string>

#include "proto/base/bytes.h"

namespace tidepool::storage {
namespace {

constexpr std::uint64_t kPlanUnitBytes = 1024 * 1024;
constexpr std::uint64_t kCatalogAreaBytesMax = 16 * kPlanUnitBytes;
constexpr std::uint64_t kRingBytesMax = 64 * kPlanUnitBytes;
// No device is larger; keeps sums of a few products far from the end of 64 bits.
constexpr std::uint64_t kDeviceBytesMax = 1ull << 50;

std::uint64_t CatalogAreaBytes(std::uint64_t share_of, const LayoutOptions& options) {
  if (options.catalog_area_bytes != 0) {
    return AlignUp(options.catalog_area_bytes, kDeviceBlockBytes);
  }
  return AlignUp(std::clamp(share_of / 128, kPlanUnitBytes, kCatalogAreaBytesMax),
                 kDeviceBlockBytes);
}

std::uint64_t RingBytes(std::uint64_t share_of, const LayoutOptions& options) {
  if (options.ring_bytes != 0) return AlignUp(options.ring_bytes, kDeviceBlockBytes);
  return AlignUp(std::clamp(share_of / 16 / options.cores, kPlanUnitBytes, kRingBytesMax),
                 kDeviceBlockBytes);
}

// `share_of`: of how many bytes catalog and rings get their shares; 0: the least of each.
DeviceLayout Arrange(std::uint64_t device_bytes, std::uint64_t share_of,
                     const LayoutOptions& options) {
  DeviceLayout layout;
  layout.device_bytes = device_bytes / kDeviceBlockBytes * kDeviceBlockBytes;
  layout.cores = options.cores;
  layout.slot_bytes = options.slot_bytes;
  layout.catalog_begin = kSuperblockSlots * kDeviceBlockBytes;
  layout.catalog_area_bytes = CatalogAreaBytes(share_of, options);
  layout.checkpoints_begin = layout.CatalogOffset(kCatalogAreas);
  layout.rings_begin = layout.CheckpointOffset(options.cores, 0);
  layout.ring_bytes = RingBytes(share_of, options);
  layout.slots_begin = AlignUp(layout.RingOffset(options.cores), options.slot_bytes);
  if (layout.slots_begin < layout.device_bytes) {
    layout.slot_count = (layout.device_bytes - layout.slots_begin) / layout.slot_bytes;
  }
  return layout;
}

}  // namespace

std::uint64_t LayoutBytesMin(const LayoutOptions& options) {
  return Arrange(0, 0, options).SlotOffset(options.slots_per_core_min * options.cores);
}

Result<DeviceLayout> PlanLayout(std::uint64_t device_bytes, const LayoutOptions& options) {
  const bool is_sound =
      options.cores >= 1 && options.cores <= limits::kCoresPerNodeMax &&
      std::has_single_bit(options.slot_bytes) && options.slot_bytes >= kDeviceBlockBytes &&
      options.slot_bytes <= limits::kArenaBytes && options.slots_per_core_min >= 1 &&
      device_bytes <= kDeviceBytesMax && options.catalog_area_bytes <= kDeviceBytesMax &&
      options.ring_bytes <= kDeviceBytesMax / limits::kCoresPerNodeMax;
  if (!is_sound) {
    return Status(StatusCode::kInvalidArgument, "the sizes of a device and its slots do not fit",
                  "a slot is a power of two of at least 4 KiB, a device at most 1 PiB");
  }
  const std::uint64_t slots_min = options.slots_per_core_min * options.cores;
  DeviceLayout layout = Arrange(device_bytes, device_bytes, options);
  if (layout.slot_count < slots_min) layout = Arrange(device_bytes, 0, options);
  if (layout.slot_count < slots_min) {
    return Status(StatusCode::kResourceExhausted,
                  std::to_string(device_bytes) + " bytes are too few for " +
                      std::to_string(options.cores) + " cores",
                  "give at least " + std::to_string(LayoutBytesMin(options)) + " bytes");
  }
  return layout;
}

bool IsSound(const DeviceLayout& layout) {
  const auto is_whole = [](std::uint64_t bytes) {
    return bytes % kDeviceBlockBytes == 0 && bytes <= kDeviceBytesMax;
  };
  const bool in_range = layout.cores >= 1 && layout.cores <= limits::kCoresPerNodeMax &&
                        is_whole(layout.device_bytes) && is_whole(layout.slots_begin) &&
                        is_whole(layout.checkpoints_begin) && is_whole(layout.rings_begin) &&
                        is_whole(layout.ring_bytes) && is_whole(layout.catalog_begin) &&
                        is_whole(layout.catalog_area_bytes) &&
                        std::has_single_bit(layout.slot_bytes) && is_whole(layout.slot_bytes) &&
                        layout.slot_count <= kDeviceBytesMax / layout.slot_bytes;
  // All are below 2^50 and cores below 2^7: no sum overflows.
  return in_range && layout.ring_bytes > 0 && layout.catalog_area_bytes > 0 &&
         layout.slot_count > 0 && layout.catalog_begin >= kSuperblockSlots * kDeviceBlockBytes &&
         layout.checkpoints_begin >= layout.CatalogOffset(kCatalogAreas) &&
         layout.rings_begin >= layout.CheckpointOffset(layout.cores, 0) &&
         layout.slots_begin >= layout.RingOffset(layout.cores) &&
         layout.device_bytes >= layout.SlotOffset(layout.slot_count);
}

}  // namespace tidepool::storage
