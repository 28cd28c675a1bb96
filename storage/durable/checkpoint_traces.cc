#include "storage/durable/checkpoint_traces.h"

#include "storage/durable/replay.h"
#include "storage/nvm/record_check.h"

namespace tidepool::storage {
namespace {

// Finds a sound record at `at`, except for an end record: it exists also without later writes.
bool HasRecordAt(Bytes image, std::uint64_t at, std::uint64_t number) {
  if (image.size() - at < sizeof(RecordHeader)) return false;
  const auto& header = *reinterpret_cast<const RecordHeader*>(image.data() + at);
  const std::uint64_t bytes = ReplayedBytes(header, image.size());
  return header.type != RecordType::kEnd && bytes != 0 && bytes <= image.size() - at &&
         header.crc32c == RecordChecksum(header, bytes, number);
}

}  // namespace

Result<bool> HasRecordsBehind(const Volume& volume, const DeviceQueues& queues,
                              const Checkpoint& checkpoint, std::span<const FoundSegment> counted) {
  BlockBuffer image(volume.slot_bytes());
  for (const FoundSegment& found : counted) {
    const std::uint32_t end = checkpoint.EndOf(found.number);
    if (end == 0 || end >= image.size()) continue;
    const SlotPlace place = volume.Place(found.slot);
    TP_RETURN_IF_ERROR(ReadBlocks(queues[place.device].get(), place.offset, image.bytes()));
    if (HasRecordAt(image.bytes(), end, found.number)) return true;
  }
  return false;
}

}  // namespace tidepool::storage
