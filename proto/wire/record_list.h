// Value of an Iterate or Scan answer: records in sequence.
#pragma once

#include <cstdint>

#include "proto/base/bytes.h"
#include "proto/base/ids.h"
#include "proto/base/status.h"
#include "proto/wire/group.h"

namespace tidepool::wire {

// Size of an entry with the number of unreadable records, and of any entry without key and value.
inline constexpr std::size_t kUnreadableEntryBytes = 24;

struct ListedRecord {
  Bytes key;
  Bytes value;                    // Empty when `value_omitted`.
  std::uint32_t value_bytes = 0;  // Size of the whole value.
  bool value_omitted =
      false;  // Too large for the list, or only keys were asked for: get it by key.
  ValueKind value_kind = ValueKind::kBytes;
  Lsn version;
  std::uint64_t expiry_ms = 0;  // Wall clock; 0: never.
  // Above 0: no record, but this number of unreadable records. All other fields are unset.
  std::uint32_t unreadable = 0;

  std::size_t bytes() const;
};

// Appends `record` at `to`, whose room is checked by the caller with bytes(). Returns the end.
std::byte* AppendRecord(const ListedRecord& record, std::byte* to);

// Takes the first record off `rest`. Returns: kOk, kInvalidArgument (malformed).
Status TakeRecord(Bytes* rest, ListedRecord* record);

}  // namespace tidepool::wire
