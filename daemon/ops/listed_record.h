// Converts a record of the store to a record of an answer's list.
//
//   storage/hash_store, ordered_store -> daemon/ops/hash_ops, ordered_ops -> [ListedOf] ->
//   record_list
#pragma once

#include <cstdint>

#include "proto/base/limits.h"
#include "proto/base/steady_clock.h"
#include "proto/wire/record_list.h"
#include "storage/hash_store.h"

namespace tidepool::daemon {

inline wire::ValueKind ValueKindOf(std::uint8_t value_flags) {
  if ((value_flags & storage::kRecordI64) != 0) return wire::ValueKind::kI64;
  if ((value_flags & storage::kRecordF64) != 0) return wire::ValueKind::kF64;
  return wire::ValueKind::kBytes;
}

// Returns views of `record`'s data. Omits values that are too large to travel with others.
inline wire::ListedRecord ListedOf(const storage::RecordView& record, bool keys_only) {
  wire::ListedRecord listed;
  listed.key = record.key;
  listed.value = record.value;
  listed.value_bytes = static_cast<std::uint32_t>(record.value_bytes);
  listed.value_omitted = keys_only || record.extent != nullptr ||
                         record.value_bytes > limits::kUnstreamedValueBytesMax;
  listed.value_kind = ValueKindOf(record.value_flags);
  listed.version = record.version;
  // The receiver compares the time with its machine's clock.
  listed.expiry_ms = record.expiry_ms == 0 ? 0 : SteadyClock::Real().ToMachineMs(record.expiry_ms);
  return listed;
}

}  // namespace tidepool::daemon
