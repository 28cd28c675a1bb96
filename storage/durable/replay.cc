#include "storage/durable/replay.h"

#include <cstring>

#include "proto/base/key_hash.h"
#include "storage/nvm/record_check.h"

namespace tidepool::storage {
namespace {

// Independent of KeyHash: of the key's bytes in another order.
std::uint32_t SecondHash(Bytes key) {
  std::uint64_t hash = 0x9e3779b97f4a7c15ull ^ key.size();
  const auto mix = [&hash](std::uint64_t word) {
    const auto product = static_cast<unsigned __int128>(hash ^ word) * 0xa0761d6478bd642full;
    hash = static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  };
  std::size_t at = key.size();
  for (; at >= 8; at -= 8) mix(LoadUnaligned<std::uint64_t>(key.data() + at - 8));
  std::uint64_t rest = 0;
  if (at > 0) std::memcpy(&rest, key.data(), at);
  mix(rest);
  return static_cast<std::uint32_t>(hash >> 32);
}

// Beside an item of the same key.
constexpr std::uint32_t kOfNotes = 0x4f6cdd1d;

std::uint64_t StoredBytes(const RecordHeader& header, std::uint64_t segment_bytes) {
  if (header.type != RecordType::kPutExtent) return header.value_bytes;
  return ShapeOfExtent(header.value_bytes, segment_bytes).stored_bytes();
}

std::uint64_t ExpiryOf(const RecordHeader& header, std::size_t stored_bytes, const std::byte* at) {
  const bool is_put = header.type == RecordType::kPut || header.type == RecordType::kPutExtent;
  if (!is_put || (header.flags & kRecordExpiry) == 0) return 0;
  return LoadUnaligned<std::uint64_t>(at + RecordBytes(header.key_bytes, stored_bytes, 0));
}

// The record at `at`, of `bytes`.
ReplayedRecord RecordAt(Bytes image, std::size_t at, const RecordHeader& header,
                        std::uint64_t bytes) {
  ReplayedRecord record;
  record.header = header;
  record.offset = static_cast<std::uint32_t>(at);
  record.bytes = static_cast<std::uint32_t>(bytes);
  if (header.type == RecordType::kPad || header.type == RecordType::kDrop) return record;
  const std::size_t key_at = at + sizeof header;
  record.key = image.subspan(key_at, header.key_bytes);
  record.identity = IdentityOf(record.key, header.type);
  record.payload_bytes = header.key_bytes;
  if (header.type == RecordType::kTombstone) return record;
  const std::uint64_t stored = StoredBytes(header, image.size());
  record.value = image.subspan(key_at + header.key_bytes, stored);
  record.payload_bytes += header.value_bytes;
  if (header.type == RecordType::kPutExtent) {
    record.link_bytes =
        static_cast<std::uint32_t>(ShapeOfExtent(header.value_bytes, image.size()).link_bytes());
  }
  record.expiry_ms = ExpiryOf(header, stored, image.data() + at);
  return record;
}

// Returns the record in place: the image is aligned as segments are.
const RecordHeader& HeaderAt(Bytes image, std::size_t at) {
  return *reinterpret_cast<const RecordHeader*>(image.data() + at);
}

// Returns the size of the record at `at`, which ends before `limit`; 0: no sound record.
std::uint64_t SoundBytes(const SegmentImage& image, std::size_t at, std::size_t limit) {
  if (limit < at || limit - at < sizeof(RecordHeader)) return 0;
  const RecordHeader& header = HeaderAt(image.bytes, at);
  const std::uint64_t bytes = ReplayedBytes(header, image.bytes.size());
  if (bytes == 0 || bytes > limit - at) return 0;
  return header.crc32c == RecordChecksum(header, bytes, image.number) ? bytes : 0;
}

}  // namespace

KeyIdentity IdentityOf(Bytes key, RecordType type) {
  const std::uint32_t second = SecondHash(key);
  return {KeyHash(key), type == RecordType::kLease ? second ^ kOfNotes : second};
}

std::uint64_t ReplayedBytes(const RecordHeader& header, std::uint64_t segment_bytes) {
  switch (header.type) {
    case RecordType::kPut:
    case RecordType::kLease:
      return RecordBytes(header.key_bytes, header.value_bytes, header.flags);
    case RecordType::kPutExtent:
      if (segment_bytes <= 2 * kExtentHeaderBytes ||
          header.value_bytes <= ExtentThresholdBytes(segment_bytes)) {
        return 0;
      }
      return RecordBytes(header.key_bytes, StoredBytes(header, segment_bytes), header.flags);
    case RecordType::kPad:
      return RecordBytes(0, header.value_bytes, 0);
    case RecordType::kTombstone:
      return RecordBytes(header.key_bytes, 0, 0);
    case RecordType::kDrop:
    case RecordType::kEnd:
      return sizeof header;
  }
  return 0;
}

std::optional<ReplayedRecord> ReplayRecord(const SegmentImage& image, std::uint32_t offset) {
  if (offset < sizeof(SegmentHeader) || offset % kRecordAlign != 0) return std::nullopt;
  const std::uint64_t bytes = SoundBytes(image, offset, image.bytes.size());
  if (bytes == 0) return std::nullopt;
  const RecordHeader& header = HeaderAt(image.bytes, offset);
  if (header.type == RecordType::kEnd || header.type == RecordType::kPad) return std::nullopt;
  return RecordAt(image.bytes, offset, header, bytes);
}

std::uint32_t ReplaySegment(const SegmentImage& image,
                            absl::FunctionRef<void(const ReplayedRecord&)> visit) {
  const std::size_t limit = image.end != 0 ? image.end : image.bytes.size();
  if (limit > image.bytes.size() || limit < sizeof(SegmentHeader)) return 0;
  SegmentHeader segment;
  std::memcpy(&segment, image.bytes.data(), sizeof segment);
  if (segment.crc32c != SegmentChecksum(segment) || segment.number != image.number) return 0;
  std::size_t at = sizeof(SegmentHeader);
  while (image.end == 0 || at < image.end) {
    const std::uint64_t bytes = SoundBytes(image, at, limit);
    if (bytes == 0) return 0;
    const RecordHeader& header = HeaderAt(image.bytes, at);
    if (header.type == RecordType::kEnd) break;
    if (header.type != RecordType::kPad) visit(RecordAt(image.bytes, at, header, bytes));
    at += bytes;
  }
  return static_cast<std::uint32_t>(at);
}

bool ReplayCommit(Bytes records, absl::FunctionRef<void(const ReplayedRecord&)> visit) {
  for (std::size_t at = 0; at < records.size();) {
    const std::size_t left = records.size() - at;
    if (left < sizeof(RecordHeader)) return false;
    const auto& header = *reinterpret_cast<const RecordHeader*>(records.data() + at);
    if (header.type == RecordType::kEnd || header.type == RecordType::kPad) return false;
    const std::uint64_t bytes = ReplayedBytes(header, 0);
    if (bytes == 0 || bytes > left) return false;
    visit(RecordAt(records, at, header, bytes));
    at += bytes;
  }
  return true;
}

}  // namespace tidepool::storage
