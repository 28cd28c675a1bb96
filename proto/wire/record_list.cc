#include "proto/wire/record_list.h"

#include "proto/base/limits.h"
#include "proto/base/short_copy.h"

namespace tidepool::wire {
namespace {

// 24 bytes.
struct RecordHeader {
  std::uint64_t version;
  std::uint64_t expiry_ms;
  std::uint32_t value_bytes;  // Entry kUnreadable: number of records.
  std::uint16_t key_bytes;
  std::uint8_t value_kind;
  std::uint8_t value_omitted;  // 0, 1, or kUnreadable.
};
constexpr std::uint8_t kUnreadable = 2;
static_assert(sizeof(RecordHeader) == kUnreadableEntryBytes);

Status MalformedList() { return Status(StatusCode::kInvalidArgument, "malformed record list"); }

}  // namespace

std::size_t ListedRecord::bytes() const {
  return sizeof(RecordHeader) + key.size() + (value_omitted ? 0 : value.size());
}

std::byte* AppendRecord(const ListedRecord& record, std::byte* to) {
  if (record.unreadable > 0) [[unlikely]] {
    StoreUnaligned(to, RecordHeader{0, 0, record.unreadable, 0, 0, kUnreadable});
    return to + sizeof(RecordHeader);
  }
  const RecordHeader header{
      record.version.value(),
      record.expiry_ms,
      record.value_omitted ? record.value_bytes : static_cast<std::uint32_t>(record.value.size()),
      static_cast<std::uint16_t>(record.key.size()),
      static_cast<std::uint8_t>(record.value_kind),
      static_cast<std::uint8_t>(record.value_omitted)};
  StoreUnaligned(to, header);
  to += sizeof header;
  CopyShort(to, record.key.data(), record.key.size());
  to += record.key.size();
  if (record.value_omitted || record.value.empty()) return to;
  CopyShort(to, record.value.data(), record.value.size());
  return to + record.value.size();
}

Status TakeRecord(Bytes* rest, ListedRecord* record) {
  if (rest->size() < sizeof(RecordHeader)) return MalformedList();
  const auto header = LoadUnaligned<RecordHeader>(rest->data());
  if (header.value_omitted == kUnreadable) {
    if (header.value_bytes == 0 || header.key_bytes != 0 || header.value_kind != 0 ||
        header.version != 0 || header.expiry_ms != 0) {
      return MalformedList();
    }
    *record = {};
    record->unreadable = header.value_bytes;
    *rest = rest->subspan(sizeof header);
    return OkStatus();
  }
  const std::size_t inline_bytes = header.value_omitted != 0 ? 0 : header.value_bytes;
  if (header.value_omitted > 1 || header.key_bytes > limits::kKeyBytesMax ||
      header.value_bytes > limits::kValueBytesMax ||
      header.value_kind > static_cast<std::uint8_t>(ValueKind::kF64) ||
      rest->size() - sizeof header < header.key_bytes + inline_bytes) {
    return MalformedList();
  }
  record->unreadable = 0;
  record->version = Lsn(header.version);
  record->expiry_ms = header.expiry_ms;
  record->value_bytes = header.value_bytes;
  record->value_kind = static_cast<ValueKind>(header.value_kind);
  record->value_omitted = header.value_omitted != 0;
  record->key = rest->subspan(sizeof header, header.key_bytes);
  record->value = rest->subspan(sizeof header + header.key_bytes, inline_bytes);
  *rest = rest->subspan(sizeof header + header.key_bytes + inline_bytes);
  return OkStatus();
}

}  // namespace tidepool::wire
