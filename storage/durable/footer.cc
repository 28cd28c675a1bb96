#include "storage/durable/footer.h"

#include <cstring>

#include "proto/base/check.h"
#include "storage/nvm/crc32c.h"

namespace tidepool::storage {
namespace {

constexpr std::uint32_t kMagic = 0x46505431;  // "1TPF"
constexpr int kTypeShift = 20;
constexpr int kFlagsShift = 24;
constexpr std::uint32_t kOffsetMask = (1u << kTypeShift) - 1;
constexpr std::uint32_t kTypeMask = (1u << (kFlagsShift - kTypeShift)) - 1;

FooterTrailer TrailerOf(Bytes tail) {
  FooterTrailer trailer;
  std::memcpy(&trailer, tail.data() + tail.size() - sizeof trailer, sizeof trailer);
  return trailer;
}

}  // namespace

std::uint32_t FooterChecksum(Bytes footer, std::uint64_t number) {
  constexpr std::size_t kFrom = offsetof(FooterTrailer, number);
  const std::size_t entries = footer.size() - sizeof(FooterTrailer);
  const std::uint32_t seed = Crc32c(std::as_bytes(std::span(&number, 1)));
  return Crc32c(footer.subspan(entries + kFrom), Crc32c(footer.first(entries), seed));
}

void FooterWriter::Add(const RecordHeader& record, std::uint32_t offset) {
  if (record.type == RecordType::kPad) return;
  const Bytes key(reinterpret_cast<const std::byte*>(&record + 1), record.key_bytes);
  const bool has_key = record.type != RecordType::kDrop;
  const KeyIdentity identity = has_key ? IdentityOf(key, record.type) : KeyIdentity{};
  const bool has_value = has_key && record.type != RecordType::kTombstone;
  FooterEntry entry;
  entry.hash = identity.hash;
  entry.lsn = record.lsn;
  entry.second = identity.second;
  entry.partition = record.partition;
  entry.payload_bytes = record.key_bytes + (has_value ? record.value_bytes : 0);
  entry.place = offset / static_cast<std::uint32_t>(kRecordAlign) |
                static_cast<std::uint32_t>(record.type) << kTypeShift |
                std::uint32_t{record.flags} << kFlagsShift;
  ++entries_;
  std::memcpy(segment_.data() + begin(), &entry, sizeof entry);
}

void FooterWriter::Finish(std::uint32_t used, std::uint64_t expiry_min_ms) {
  FooterTrailer trailer;
  trailer.magic = kMagic;
  trailer.number = number_;
  trailer.entries = entries_;
  trailer.used = used;
  trailer.expiry_min_ms = expiry_min_ms;
  std::byte* const at = segment_.data() + segment_.size() - sizeof trailer;
  std::memcpy(at, &trailer, sizeof trailer);
  trailer.crc32c = FooterChecksum(segment_.subspan(begin()), number_);
  std::memcpy(at, &trailer, sizeof trailer);
}

std::uint64_t FooterBytes(Bytes tail, std::uint64_t number) {
  TP_CHECK(tail.size() >= sizeof(FooterTrailer));
  const FooterTrailer trailer = TrailerOf(tail);
  if (trailer.magic != kMagic || trailer.number != number) return 0;
  return sizeof trailer + std::uint64_t{trailer.entries} * sizeof(FooterEntry);
}

std::uint32_t ReplayFooter(Bytes tail, std::uint64_t number,
                           absl::FunctionRef<void(const ReplayedRecord&)> visit) {
  const std::uint64_t bytes = FooterBytes(tail, number);
  if (bytes == 0 || bytes > tail.size()) return 0;
  const FooterTrailer trailer = TrailerOf(tail);
  if (trailer.crc32c != FooterChecksum(tail.last(bytes), number)) return 0;
  const std::byte* at = tail.data() + tail.size() - sizeof trailer;
  for (std::uint32_t i = 0; i < trailer.entries; ++i) {
    at -= sizeof(FooterEntry);
    FooterEntry entry;
    std::memcpy(&entry, at, sizeof entry);
    ReplayedRecord record;
    record.header = RecordHeader{};
    record.header.lsn = entry.lsn;
    record.header.partition = entry.partition;
    record.header.type = static_cast<RecordType>(entry.place >> kTypeShift & kTypeMask);
    record.header.flags = static_cast<std::uint8_t>(entry.place >> kFlagsShift);
    record.identity = {entry.hash, entry.second};
    record.payload_bytes = entry.payload_bytes;
    record.offset = (entry.place & kOffsetMask) * static_cast<std::uint32_t>(kRecordAlign);
    // Right for what lies in the record alone; others are to be read.
    record.bytes =
        static_cast<std::uint32_t>(RecordBytes(entry.payload_bytes, 0, record.header.flags));
    if ((record.header.flags & kRecordExpiry) != 0) record.expiry_ms = trailer.expiry_min_ms;
    if (record.offset >= trailer.used) return 0;
    visit(record);
  }
  return trailer.used;
}

}  // namespace tidepool::storage
