#include "storage/nvm/slot_scan.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "proto/base/check.h"
#include "storage/device/device_io.h"
#include "storage/layout.h"
#include "storage/nvm/record_check.h"

namespace tidepool::storage {
namespace {

constexpr unsigned kDepth = 64;
constexpr std::uint64_t kScanWaitMs = 1'000;  // Between two looks; no limit.

bool IsDurableHeader(const SegmentHeader& header) {
  return header.magic == kSegmentMagic && header.crc32c == SegmentChecksum(header) &&
         (header.kind == SegmentKind::kLog || header.kind == SegmentKind::kExtent) &&
         IsDurableStream(header.stream);
}

}  // namespace

Result<std::vector<FoundSegment>> ScanSegmentHeaders(Device* device, const DeviceLayout& layout) {
  auto queue = device->OpenQueue(kDepth);
  if (!queue.ok()) return queue.status();
  std::vector<FoundSegment> found;
  BlockBuffer blocks(kDepth * kDeviceBlockBytes);
  std::vector<std::uint64_t> slot_of(kDepth);
  int error = 0;
  std::uint64_t next = 0;
  const auto start = [&](std::uint64_t place) {
    if (next == layout.slot_count || error != 0) return;
    slot_of[place] = next;
    DeviceRequest request;
    request.offset = layout.SlotOffset(next++);
    request.data = blocks.data() + place * kDeviceBlockBytes;
    request.bytes = kDeviceBlockBytes;
    request.tag = place;
    TP_CHECK((*queue)->Start(request));
  };
  for (std::uint64_t place = 0; place < kDepth; ++place) start(place);
  while ((*queue)->in_flight() > 0) {
    (*queue)->Wait(kScanWaitMs);
    (*queue)->Reap([&](const DeviceCompletion& completion) {
      if (completion.error != 0) {
        error = completion.error;
        return;
      }
      SegmentHeader header;
      std::memcpy(&header, blocks.data() + completion.tag * kDeviceBlockBytes, sizeof header);
      if (IsDurableHeader(header)) {
        found.push_back(
            {slot_of[completion.tag], header.number, header.core, header.stream, header.kind});
      }
      start(completion.tag);
    });
  }
  if (error == 0) return found;
  return Status(StatusCode::kDeviceError,
                std::string("the headers of its segments cannot be read: ") + std::strerror(error),
                "replace the device; or start without what is on it");
}

}  // namespace tidepool::storage
