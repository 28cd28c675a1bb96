#include "storage/durable/replay.h"

#include <cstring>

#include "proto/base/key_hash.h"
#include "proto/base/limits.h"
#include "storage/nvm/record_check.h"

namespace tidepool::storage {
namespace {

// Independent of KeyHash: of the key's bytes in another order.
std::uint64_t SecondHash(Bytes key) {
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
  return hash;
}

// Bytes of the record; 0: it cannot be one.
std::uint64_t LengthOf(const RecordHeader& header) {
  switch (header.type) {
    case RecordType::kPut:
      return RecordBytes(header.key_bytes, header.value_bytes, header.flags);
    case RecordType::kPad:
      return RecordBytes(0, header.value_bytes, 0);
    case RecordType::kTombstone:
      return RecordBytes(header.key_bytes, 0, 0);
    case RecordType::kDrop:
    case RecordType::kEnd:
      return sizeof header;
    case RecordType::kPutExtent:
      break;
  }
  return 0;
}

std::uint64_t ExpiryOf(const RecordHeader& header, const std::byte* at) {
  if (header.type != RecordType::kPut || (header.flags & kRecordExpiry) == 0) return 0;
  return LoadUnaligned<std::uint64_t>(at + RecordBytes(header.key_bytes, header.value_bytes, 0));
}

}  // namespace

std::uint32_t ReplaySegment(const SegmentImage& image,
                            absl::FunctionRef<void(const ReplayedRecord&)> visit) {
  const std::size_t limit = image.end != 0 ? image.end : image.bytes.size();
  if (limit > image.bytes.size() || limit < sizeof(SegmentHeader)) return 0;
  std::size_t at = sizeof(SegmentHeader);
  while (image.end == 0 || at < image.end) {
    if (limit - at < sizeof(RecordHeader)) return 0;
    const std::byte* const from = image.bytes.data() + at;
    ReplayedRecord record;
    std::memcpy(&record.header, from, sizeof record.header);
    const std::uint64_t bytes = LengthOf(record.header);
    if (bytes == 0 || bytes > limit - at) return 0;
    // The image is aligned as segments are, so that this is a record where it lies.
    if (record.header.crc32c !=
        RecordChecksum(*reinterpret_cast<const RecordHeader*>(from), bytes, image.number)) {
      return 0;
    }
    if (record.header.type == RecordType::kEnd) break;
    record.offset = static_cast<std::uint32_t>(at);
    record.bytes = static_cast<std::uint32_t>(bytes);
    at += bytes;
    if (record.header.type == RecordType::kPad) continue;
    record.key = image.bytes.subspan(
        record.offset + sizeof(RecordHeader),
        record.header.type == RecordType::kDrop ? std::size_t{0} : record.header.key_bytes);
    record.expiry_ms = ExpiryOf(record.header, from);
    visit(record);
  }
  return static_cast<std::uint32_t>(at);
}

void NewestRecords::Add(const ReplayedRecord& record, std::uint64_t location) {
  Entry entry;
  entry.lsn = record.header.lsn;
  entry.location = location;
  entry.expiry_ms = record.expiry_ms;
  entry.bytes = record.bytes;
  entry.payload_bytes = static_cast<std::uint32_t>(std::uint64_t{record.header.key_bytes} +
                                                   record.header.value_bytes);
  entry.tombstone = record.header.type == RecordType::kTombstone;
  Add(record.key, entry);
}

void NewestRecords::Add(Bytes key, const Entry& entry) {
  last_lsn_ = std::max(last_lsn_, Lsn(entry.lsn));
  const auto [found, added] = entries_.try_emplace({KeyHash(key), SecondHash(key)}, entry);
  if (added) {
    if (!entry.tombstone) ++puts_;
    return;
  }
  if (entry.lsn <= found->second.lsn) return;
  if (!found->second.tombstone) --puts_;
  if (!entry.tombstone) ++puts_;
  found->second = entry;
}

}  // namespace tidepool::storage
