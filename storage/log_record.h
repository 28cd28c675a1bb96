// A change of a partition as data: what the owner decided, and what everybody else obeys.
//
// operations -> [LogRecord] -> Partition::Apply -> index and log, then the observers. Clients'
// operations, expiry, and later recovery, restore, migration and replicas all come through the same
// door.
#pragma once

#include <cstdint>
#include <span>

#include "proto/base/bytes.h"
#include "proto/base/ids.h"
#include "storage/layout.h"

namespace tidepool::storage {

enum class LogRecordType : std::uint8_t {
  kPut = 1,     // The key now has this value, expiry and counter flags.
  kDelete = 2,  // The key is gone, if it was there.
  kExpire = 3,  // As kDelete, because its time had passed: decided by the owner, obeyed by others.
  // ---- Of items in queues, whose pushes are puts, and whose pops and acks are deletes.
  kLease = 4,  // The item is its consumer's now; `value` is a LeaseNote.
  // The item is ready again, at its old place: refused by its consumer, or overdue. With what stays
  // of its LeaseNote.
  kRelease = 5,
};

// What of it goes to a log.
constexpr RecordType RecordTypeOf(LogRecordType type) {
  switch (type) {
    case LogRecordType::kPut:
      return RecordType::kPut;
    case LogRecordType::kDelete:
    case LogRecordType::kExpire:
      return RecordType::kTombstone;
    case LogRecordType::kLease:
    case LogRecordType::kRelease:
      break;
  }
  return RecordType::kLease;
}

// Self-contained. The views must live until Apply returns; a observer that needs more copies them.
struct LogRecord {
  PartitionId partition;
  Lsn lsn;  // 0: the partition gives it its next one.
  LogRecordType type = LogRecordType::kPut;
  std::uint8_t value_flags = 0;  // Of kCounterFlags.
  bool keyed = false;            // As kRecordKeyed: the partition says so (Partition::Stamp).
  Bytes key;
  std::uint64_t hash = 0;  // KeyHash(key).
  // The value is `value` then `value_tail` (an append needs no copy of the whole), or, when
  // `extent_segments` is not empty, what lies in those segments of this core and then the two.
  Bytes value;
  Bytes value_tail;
  std::span<const std::uint32_t> extent_segments;
  std::uint64_t value_bytes = 0;  // Of all of it.
  std::uint64_t expiry_ms = 0;    // Absolute wall time; 0 is never.
  // Whose operation it was: 0 where nobody's.
  SessionId session;
  std::uint64_t session_sequence = 0;
};

// Sees every change of a partition in LSN order, after it was applied. On the owner core, inside
// the operation: it must not block, and must not touch the store.
class LogObserver {
 public:
  virtual ~LogObserver() = default;
  virtual void OnRecord(const LogRecord& record) = 0;
};

}  // namespace tidepool::storage
