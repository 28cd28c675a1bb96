#include "storage/durable/checkpoint.h"

#include <algorithm>
#include <cstring>

#include "proto/base/check.h"
#include "proto/base/key_hash.h"
#include "storage/device/device_io.h"
#include "storage/layout.h"
#include "storage/nvm/crc32c.h"

namespace tidepool::storage {
namespace {

struct Image {
  char magic[8];
  std::uint32_t format;
  std::uint32_t crc32c;  // Over the block, with zeros here.
  std::uint64_t sequence;
  std::uint64_t incarnation;
  Uuid volume;
  std::uint64_t at_ms;
  std::uint64_t first;
  std::uint64_t next;
  std::uint64_t ring_commit;
  std::uint64_t ring_offset;
  std::uint32_t ring_checksum;
  std::uint32_t core;
  Checkpoint::Open open[kCheckpointOpenMax];
  std::uint64_t ring_position;
  SegmentSet segments;
  std::uint64_t lost_below;
  std::uint64_t leaving[kCheckpointLeavingMax];
};
static_assert(sizeof(Image) == 480);
static_assert(std::has_unique_object_representations_v<Image>);
static_assert(sizeof(Image) <= 512);

constexpr char kCheckpointMagic[8] = {'T', 'I', 'D', 'E', 'M', 'R', 'K', '\n'};
constexpr std::uint32_t kFormat = 2;

std::uint64_t HashOf(std::uint64_t number) { return KeyHash(std::as_bytes(std::span(&number, 1))); }

}  // namespace

void SegmentSet::Add(std::uint64_t number) {
  ++count;
  sum += HashOf(number);
}

void SegmentSet::Remove(std::uint64_t number) {
  TP_CHECK(count > 0);
  --count;
  sum -= HashOf(number);
}

void EncodeCheckpoint(const Checkpoint& checkpoint, MutableBytes block) {
  TP_CHECK(block.size() == kDeviceBlockBytes);
  Image image{};
  std::memcpy(image.magic, kCheckpointMagic, sizeof kCheckpointMagic);
  image.format = kFormat;
  image.sequence = checkpoint.sequence;
  image.incarnation = checkpoint.incarnation;
  image.volume = checkpoint.volume;
  image.at_ms = checkpoint.at_ms;
  image.first = checkpoint.first;
  image.next = checkpoint.next;
  image.ring_commit = checkpoint.ring.commit;
  image.ring_offset = checkpoint.ring.offset;
  image.ring_checksum = checkpoint.ring.checksum;
  image.ring_position = checkpoint.ring.position;
  image.core = checkpoint.core;
  std::copy(checkpoint.open.begin(), checkpoint.open.end(), image.open);
  image.segments = checkpoint.segments;
  image.lost_below = checkpoint.lost_below;
  std::copy(checkpoint.leaving.begin(), checkpoint.leaving.end(), image.leaving);
  std::memset(block.data(), 0, block.size());
  std::memcpy(block.data(), &image, sizeof image);
  image.crc32c = Crc32c(block);
  std::memcpy(block.data(), &image, sizeof image);
}

Result<Checkpoint> DecodeCheckpoint(Bytes block) {
  const Status damaged(StatusCode::kDataLoss, "a checkpoint is damaged");
  if (block.size() != kDeviceBlockBytes) return damaged;
  if (std::all_of(block.begin(), block.end(), [](std::byte b) { return b == std::byte{0}; })) {
    return Status(StatusCode::kNotFound, "no checkpoint was written yet");
  }
  Image image;
  std::memcpy(&image, block.data(), sizeof image);
  if (std::memcmp(image.magic, kCheckpointMagic, sizeof kCheckpointMagic) != 0 ||
      image.format != kFormat) {
    return damaged;
  }
  Checkpoint checkpoint;
  checkpoint.sequence = image.sequence;
  checkpoint.incarnation = image.incarnation;
  checkpoint.volume = image.volume;
  checkpoint.at_ms = image.at_ms;
  checkpoint.first = image.first;
  checkpoint.next = image.next;
  checkpoint.ring = {image.ring_commit, image.ring_offset, image.ring_checksum,
                     image.ring_position};
  checkpoint.core = image.core;
  std::copy(std::begin(image.open), std::end(image.open), checkpoint.open.begin());
  checkpoint.segments = image.segments;
  checkpoint.lost_below = image.lost_below;
  std::copy(std::begin(image.leaving), std::end(image.leaving), checkpoint.leaving.begin());
  // Encoded again it must be the same: checksum, and zeros where nothing is.
  std::array<std::byte, kDeviceBlockBytes> again;
  EncodeCheckpoint(checkpoint, again);
  if (std::memcmp(again.data(), block.data(), block.size()) != 0) return damaged;
  if (checkpoint.sequence == 0 || checkpoint.first > checkpoint.next ||
      checkpoint.ring.commit == 0 || checkpoint.ring.offset % kDeviceBlockBytes != 0) {
    return damaged;
  }
  for (const Checkpoint::Open& open : checkpoint.open) {
    if (open.end % kDeviceBlockBytes != 0) return damaged;
  }
  return checkpoint;
}

Checkpoint::Standing Checkpoint::StandingOf(std::uint64_t number) const {
  if (number < first) return Standing::kBefore;
  // An open segment without records that count has not even a header that counts.
  if (number >= next || EndOf(number) == sizeof(SegmentHeader)) return Standing::kBeyond;
  return Standing::kCounts;
}

std::uint32_t Checkpoint::EndOf(std::uint64_t number) const {
  for (const Open& each : open) {
    if (each.number != number) continue;
    if (each.end == 0) return sizeof(SegmentHeader);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(each.end, UINT32_MAX));
  }
  return 0;
}

bool Checkpoint::IsLeaving(std::uint64_t number) const {
  return std::find(leaving.begin(), leaving.end(), number) != leaving.end();
}

bool Checkpoint::HasAll(std::span<const FoundSegment> counted) const {
  SegmentSet found;
  for (const FoundSegment& each : counted) {
    if (!IsLeaving(each.number)) found.Add(each.number);
  }
  return found == segments;
}

Result<FoundCheckpoints> ReadCheckpoints(DeviceQueue* queue, const DeviceLayout& layout,
                                         CoreId core, const Uuid& volume, std::uint64_t next_max) {
  FoundCheckpoints found;
  BlockBuffer block(kDeviceBlockBytes);
  for (std::uint64_t which = 0; which < kCheckpointSlotsPerCore; ++which) {
    TP_RETURN_IF_ERROR(
        ReadBlocks(queue, layout.CheckpointOffset(core.value(), which), block.bytes()));
    const auto checkpoint = DecodeCheckpoint(block.bytes());
    // A volume that was made anew in the same place is blank here.
    const bool is_ours = checkpoint.ok() && checkpoint->volume == volume &&
                         checkpoint->core == core.value() && checkpoint->next <= next_max;
    if (!is_ours) {
      if (checkpoint.code() != StatusCode::kNotFound) ++found.unsound;
    } else if (!found.newest.has_value() || checkpoint->sequence > found.newest->sequence) {
      found.newest = *checkpoint;
      found.block = which;
    }
  }
  return found;
}

}  // namespace tidepool::storage
