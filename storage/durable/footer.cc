#include "storage/durable/footer.h"

#include <cstring>

#include "proto/base/check.h"
#include "storage/nvm/crc32c.h"

namespace tidepool::storage {
namespace {

constexpr std::uint32_t kFooterMagic = 0x46505431;  // "1TPF"
constexpr int kTypeShift = 20;
constexpr int kFlagsShift = 24;
constexpr std::uint32_t kOffsetMask = (1u << kTypeShift) - 1;
constexpr std::uint32_t kTypeMask = (1u << (kFlagsShift - kTypeShift)) - 1;

FooterTrailer TrailerOf(Bytes tail) {
  FooterTrailer trailer;
  std::memcpy(&trailer, tail.data() + tail.size() - sizeof trailer, sizeof trailer);
  return trailer;
}

bool IsTold(const ReplayedRecord& entry) {
  switch (entry.header.type) {
    case RecordType::kPut:
    case RecordType::kTombstone:
    case RecordType::kDrop:
      return true;
    case RecordType::kLease:
      return !entry.value.empty();
    default:
      return false;
  }
}

// Reads the key and its size, which lie before the entry of a record with kRecordKeyed.
bool TakeKey(Bytes* left, ReplayedRecord* record) {
  std::uint16_t key_bytes = 0;
  if (left->size() < sizeof key_bytes) return false;
  key_bytes = LoadUnaligned<std::uint16_t>(left->data() + left->size() - sizeof key_bytes);
  const std::size_t bytes =
      FooterEntryBytes(record->header.type, kRecordKeyed, key_bytes) - kFooterEntryBytes;
  if (left->size() < bytes || key_bytes > record->payload_bytes) return false;
  Bytes taken = left->last(bytes);
  *left = left->first(left->size() - bytes);
  if (record->header.type == RecordType::kLease) {
    record->value = taken.first(sizeof(LeaseNote));
    taken = taken.subspan(sizeof(LeaseNote));
  }
  record->key = taken.first(key_bytes);
  record->header.key_bytes = key_bytes;
  return true;
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
  const std::size_t bytes = FooterEntryBytes(record);
  std::byte* const end = segment_.data() + begin();
  std::byte* to = end - bytes;
  ++entries_;
  entry_bytes_ += static_cast<std::uint32_t>(bytes);
  std::memcpy(end - sizeof entry, &entry, sizeof entry);
  if (bytes == sizeof entry) return;
  if (record.type == RecordType::kLease) {
    TP_CHECK(record.value_bytes == sizeof(LeaseNote));
    std::memcpy(to, key.data() + key.size(), sizeof(LeaseNote));
    to += sizeof(LeaseNote);
  }
  std::memset(to, 0, static_cast<std::size_t>(end - sizeof entry - to));
  if (!key.empty()) std::memcpy(to, key.data(), key.size());
  StoreUnaligned(end - sizeof entry - sizeof record.key_bytes, record.key_bytes);
}

void FooterWriter::Finish(std::uint32_t used, std::uint64_t expiry_min_ms) {
  FooterTrailer trailer;
  trailer.magic = kFooterMagic;
  trailer.number = number_;
  trailer.entries = entries_;
  trailer.used = used;
  trailer.expiry_min_ms = expiry_min_ms;
  trailer.entry_bytes = entry_bytes_;
  std::byte* const at = segment_.data() + segment_.size() - sizeof trailer;
  std::memcpy(at, &trailer, sizeof trailer);
  trailer.crc32c = FooterChecksum(segment_.subspan(begin()), number_);
  std::memcpy(at, &trailer, sizeof trailer);
}

std::uint64_t FooterBytes(Bytes tail, std::uint64_t number) {
  TP_CHECK(tail.size() >= sizeof(FooterTrailer));
  const FooterTrailer trailer = TrailerOf(tail);
  if (trailer.magic != kFooterMagic || trailer.number != number) return 0;
  return sizeof trailer + std::uint64_t{trailer.entry_bytes};
}

std::optional<Footer> Footer::Open(Bytes tail, std::uint64_t number) {
  const std::uint64_t bytes = FooterBytes(tail, number);
  if (bytes == 0 || bytes > tail.size()) return std::nullopt;
  const Bytes all = tail.last(bytes);
  Footer footer(all.first(bytes - sizeof(FooterTrailer)), TrailerOf(tail));
  if (footer.trailer_.crc32c != FooterChecksum(all, number)) return std::nullopt;
  Cursor cursor(footer);
  std::uint32_t entries = 0;
  for (ReplayedRecord record; cursor.Next(&record); ++entries) {
    if (record.offset >= footer.used()) return std::nullopt;
    footer.tells_all_ = footer.tells_all_ && IsTold(record);
  }
  if (footer.used() == 0 || entries != footer.entries()) return std::nullopt;
  return footer;
}

Footer::Cursor::Cursor(const Footer& footer) : trailer_(footer.trailer_), left_(footer.entries_) {}

bool Footer::Cursor::Next(ReplayedRecord* record) {
  if (next_ == trailer_.entries || left_.size() < sizeof(FooterEntry)) return false;
  FooterEntry entry;
  left_ = left_.first(left_.size() - sizeof entry);
  std::memcpy(&entry, left_.data() + left_.size(), sizeof entry);
  ++next_;
  *record = {};
  record->header.lsn = entry.lsn;
  record->header.partition = entry.partition;
  record->header.type = static_cast<RecordType>(entry.place >> kTypeShift & kTypeMask);
  record->header.flags = static_cast<std::uint8_t>(entry.place >> kFlagsShift);
  record->identity = {entry.hash, entry.second};
  record->payload_bytes = entry.payload_bytes;
  record->offset = (entry.place & kOffsetMask) * static_cast<std::uint32_t>(kRecordAlign);
  // Right if all of the record lies inline; other records must be read.
  record->bytes =
      static_cast<std::uint32_t>(RecordBytes(entry.payload_bytes, 0, record->header.flags));
  if ((record->header.flags & kRecordExpiry) != 0) record->expiry_ms = trailer_.expiry_min_ms;
  return (record->header.flags & kRecordKeyed) == 0 || TakeKey(&left_, record);
}

ReplayedRecord Footer::Complete(const ReplayedRecord& entry, const SegmentImage& image) {
  if (IsTold(entry)) return entry;
  std::optional<ReplayedRecord> record = ReplayRecord(image, entry.offset);
  if (record.has_value() && record->identity == entry.identity &&
      record->header.lsn == entry.header.lsn && record->header.type == entry.header.type &&
      record->header.partition == entry.header.partition) {
    return *std::move(record);
  }
  ReplayedRecord damaged = entry;
  damaged.header.type = RecordType::kPut;
  damaged.bytes = sizeof(RecordHeader);
  return damaged;
}

}  // namespace tidepool::storage
