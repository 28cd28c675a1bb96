#include "storage/durable/mark.h"

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
  std::uint32_t crc32c;  // Of the block, with zeros here.
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
  Mark::Open open[kMarkOpenMax];
  std::uint64_t ring_position;
  SegmentSet segments;
  std::uint64_t lost_below;
  std::uint64_t leaving[kMarkLeavingMax];
};
static_assert(sizeof(Image) == 480);
static_assert(std::has_unique_object_representations_v<Image>);
static_assert(sizeof(Image) <= 512);

constexpr char kMarkMagic[8] = {'T', 'I', 'D', 'E', 'M', 'R', 'K', '\n'};
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

void EncodeMark(const Mark& mark, MutableBytes block) {
  TP_CHECK(block.size() == kDeviceBlockBytes);
  Image image{};
  std::memcpy(image.magic, kMarkMagic, sizeof kMarkMagic);
  image.format = kFormat;
  image.sequence = mark.sequence;
  image.incarnation = mark.incarnation;
  image.volume = mark.volume;
  image.at_ms = mark.at_ms;
  image.first = mark.first;
  image.next = mark.next;
  image.ring_commit = mark.ring.commit;
  image.ring_offset = mark.ring.offset;
  image.ring_checksum = mark.ring.checksum;
  image.ring_position = mark.ring.position;
  image.core = mark.core;
  std::copy(mark.open.begin(), mark.open.end(), image.open);
  image.segments = mark.segments;
  image.lost_below = mark.lost_below;
  std::copy(mark.leaving.begin(), mark.leaving.end(), image.leaving);
  std::memset(block.data(), 0, block.size());
  std::memcpy(block.data(), &image, sizeof image);
  image.crc32c = Crc32c(block);
  std::memcpy(block.data(), &image, sizeof image);
}

Result<Mark> DecodeMark(Bytes block) {
  const Status damaged(StatusCode::kDataLoss, "a mark is damaged");
  if (block.size() != kDeviceBlockBytes) return damaged;
  if (std::all_of(block.begin(), block.end(), [](std::byte b) { return b == std::byte{0}; })) {
    return Status(StatusCode::kNotFound, "no mark was written yet");
  }
  Image image;
  std::memcpy(&image, block.data(), sizeof image);
  if (std::memcmp(image.magic, kMarkMagic, sizeof kMarkMagic) != 0 || image.format != kFormat) {
    return damaged;
  }
  Mark mark;
  mark.sequence = image.sequence;
  mark.incarnation = image.incarnation;
  mark.volume = image.volume;
  mark.at_ms = image.at_ms;
  mark.first = image.first;
  mark.next = image.next;
  mark.ring = {image.ring_commit, image.ring_offset, image.ring_checksum, image.ring_position};
  mark.core = image.core;
  std::copy(std::begin(image.open), std::end(image.open), mark.open.begin());
  mark.segments = image.segments;
  mark.lost_below = image.lost_below;
  std::copy(std::begin(image.leaving), std::end(image.leaving), mark.leaving.begin());
  // Encoded again it must be the same: checksum, and zeros where nothing is.
  std::array<std::byte, kDeviceBlockBytes> again;
  EncodeMark(mark, again);
  if (std::memcmp(again.data(), block.data(), block.size()) != 0) return damaged;
  if (mark.sequence == 0 || mark.first > mark.next || mark.ring.commit == 0 ||
      mark.ring.offset % kDeviceBlockBytes != 0) {
    return damaged;
  }
  for (const Mark::Open& open : mark.open) {
    if (open.end % kDeviceBlockBytes != 0) return damaged;
  }
  return mark;
}

Mark::Standing Mark::StandingOf(std::uint64_t number) const {
  if (number < first) return Standing::kBefore;
  // Of an open segment of which nothing counts not even the header does.
  if (number >= next || EndOf(number) == sizeof(SegmentHeader)) return Standing::kBeyond;
  return Standing::kCounts;
}

std::uint32_t Mark::EndOf(std::uint64_t number) const {
  for (const Open& each : open) {
    if (each.number != number) continue;
    if (each.end == 0) return sizeof(SegmentHeader);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(each.end, UINT32_MAX));
  }
  return 0;
}

bool Mark::IsLeaving(std::uint64_t number) const {
  return std::find(leaving.begin(), leaving.end(), number) != leaving.end();
}

bool Mark::HasAll(std::span<const FoundSegment> counted) const {
  SegmentSet found;
  for (const FoundSegment& each : counted) {
    if (!IsLeaving(each.number)) found.Add(each.number);
  }
  return found == segments;
}

Result<FoundMarks> ReadMarks(DeviceQueue* queue, const DeviceLayout& layout, CoreId core,
                             const Uuid& volume, std::uint64_t next_max) {
  FoundMarks found;
  BlockBuffer block(kDeviceBlockBytes);
  for (std::uint64_t which = 0; which < kMarkSlotsPerCore; ++which) {
    TP_RETURN_IF_ERROR(ReadBlocks(queue, layout.MarkOffset(core.value(), which), block.bytes()));
    const auto mark = DecodeMark(block.bytes());
    // A volume that was made anew in the same place is blank here.
    const bool is_ours =
        mark.ok() && mark->volume == volume && mark->core == core.value() && mark->next <= next_max;
    if (!is_ours) {
      if (mark.code() != StatusCode::kNotFound) ++found.unsound;
    } else if (!found.newest.has_value() || mark->sequence > found.newest->sequence) {
      found.newest = *mark;
      found.block = which;
    }
  }
  return found;
}

}  // namespace tidepool::storage
