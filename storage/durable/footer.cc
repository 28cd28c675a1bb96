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

std::uint32_t OffsetOf(const FooterEntry& entry) {
  return (entry.place & kOffsetMask) * static_cast<std::uint32_t>(kRecordAlign);
}

RecordType TypeOf(const FooterEntry& entry) {
  return static_cast<RecordType>(entry.place >> kTypeShift & kTypeMask);
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

std::optional<Footer> Footer::Open(Bytes tail, std::uint64_t number) {
  const std::uint64_t bytes = FooterBytes(tail, number);
  if (bytes == 0 || bytes > tail.size()) return std::nullopt;
  const Footer footer(tail, TrailerOf(tail));
  if (footer.trailer_.crc32c != FooterChecksum(tail.last(bytes), number)) return std::nullopt;
  for (std::uint32_t i = 0; i < footer.entries(); ++i) {
    if (OffsetOf(footer.EntryAt(i)) >= footer.used()) return std::nullopt;
  }
  if (footer.used() == 0) return std::nullopt;
  return footer;
}

FooterEntry Footer::EntryAt(std::uint32_t index) const {
  FooterEntry entry;
  std::memcpy(
      &entry,
      tail_.data() + tail_.size() - sizeof(FooterTrailer) - (std::size_t{index} + 1) * sizeof entry,
      sizeof entry);
  return entry;
}

bool Footer::TellsAll() const {
  for (std::uint32_t i = 0; i < entries(); ++i) {
    const RecordType type = TypeOf(EntryAt(i));
    if (type != RecordType::kPut && type != RecordType::kTombstone && type != RecordType::kDrop) {
      return false;
    }
  }
  return true;
}

ReplayedRecord Footer::At(std::uint32_t index) const {
  const FooterEntry entry = EntryAt(index);
  ReplayedRecord record;
  record.header = RecordHeader{};
  record.header.lsn = entry.lsn;
  record.header.partition = entry.partition;
  record.header.type = TypeOf(entry);
  record.header.flags = static_cast<std::uint8_t>(entry.place >> kFlagsShift);
  record.identity = {entry.hash, entry.second};
  record.payload_bytes = entry.payload_bytes;
  record.offset = OffsetOf(entry);
  // Right for what lies in the record alone; others are to be read.
  record.bytes =
      static_cast<std::uint32_t>(RecordBytes(entry.payload_bytes, 0, record.header.flags));
  if ((record.header.flags & kRecordExpiry) != 0) record.expiry_ms = trailer_.expiry_min_ms;
  return record;
}

}  // namespace tidepool::storage
