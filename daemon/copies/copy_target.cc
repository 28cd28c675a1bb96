#include "daemon/copies/copy_target.h"

#include <utility>

#include "proto/base/key_hash.h"
#include "storage/partition.h"

namespace tidepool::daemon {

using wire::CopyMessageKind;

void CopyTarget::Drop() {
  for (auto& writer : large_) writer.reset();
  store_.DropIncoming(partition_);
}

void CopyTarget::Stop() {
  for (auto& writer : large_) writer.reset();
  stopped_ = true;
}

// Without memory: nothing changed.
CopyTarget::Outcome CopyTarget::Refused(bool waits) {
  // The message comes again, without a reservation.
  (void)store_.TakeRefused();
  if (store_.blocked() || store_.makes_room() || waits) return Outcome::kWait;
  return Fail(StatusCode::kResourceExhausted);
}

CopyTarget::Outcome CopyTarget::Apply(const wire::CopyMessage& message) {
  if (stopped_) return Outcome::kApplied;
  storage::Partition* const partition = store_.FindIncoming(partition_);
  if (partition == nullptr) return whole_ ? Outcome::kApplied : Fail(StatusCode::kAborted);
  switch (message.kind) {
    case CopyMessageKind::kPut:
    case CopyMessageKind::kDelete:
      return ApplyRecord(*partition, message);
    case CopyMessageKind::kLargeBegin:
    case CopyMessageKind::kLargePart:
    case CopyMessageKind::kLargeEnd:
    case CopyMessageKind::kLargeDrop:
      return ApplyLarge(*partition, message);
    case CopyMessageKind::kEnd:
      whole_ = true;
      return Outcome::kApplied;
    case CopyMessageKind::kDrop:
      return Fail(StatusCode::kCancelled);
    default:
      return Fail(StatusCode::kInternal);
  }
}

CopyTarget::Outcome CopyTarget::ApplyRecord(storage::Partition& partition,
                                            const wire::CopyMessage& message) {
  storage::LogRecord record;
  record.partition = partition.id();
  record.lsn = Lsn(message.version);
  record.type = message.kind == CopyMessageKind::kPut ? storage::LogRecordType::kPut
                                                      : storage::LogRecordType::kDelete;
  record.value_flags = message.value_flags;
  record.key = message.key;
  record.hash = KeyHash(message.key);
  record.value = message.value;
  record.value_bytes = message.value.size();
  record.expiry_ms = message.expiry_ms;
  if (record.lsn.value() == 0) return Fail(StatusCode::kInternal);
  const bool is_counter = message.value_flags != 0;
  if ((message.value_flags & ~storage::kCounterFlags) != 0 ||
      message.value_flags == storage::kCounterFlags || (is_counter && record.value_bytes != 8)) {
    return Fail(StatusCode::kInternal);
  }
  return partition.Apply(record).value() != 0 ? Outcome::kApplied : Refused(false);
}

CopyTarget::Outcome CopyTarget::ApplyLarge(storage::Partition& partition,
                                           const wire::CopyMessage& message) {
  if (message.value_flags >= wire::kCopySlots) return Fail(StatusCode::kInternal);
  std::optional<storage::ValueWriter>& writer = large_[message.value_flags];
  if (message.kind == CopyMessageKind::kLargeDrop) {
    writer.reset();
    return Outcome::kApplied;
  }
  if (message.kind == CopyMessageKind::kLargeBegin) {
    auto begun = storage::ValueWriter::Begin(store_, message.number);
    if (!begun.ok()) return Refused(false);
    writer.emplace(*std::move(begun));
    return Outcome::kApplied;
  }
  if (!writer.has_value()) return Fail(StatusCode::kInternal);
  if (message.kind == CopyMessageKind::kLargePart) {
    if (writer->refused()) return Fail(StatusCode::kResourceExhausted);
    const StatusCode code = writer->Write(message.number, message.value);
    if (code == StatusCode::kOk) return Outcome::kApplied;
    return code == StatusCode::kResourceExhausted ? Refused(writer->waits()) : Fail(code);
  }
  if (message.version == 0) return Fail(StatusCode::kInternal);
  if (!writer->Complete()) {
    return writer->waits() ? Refused(true) : Fail(StatusCode::kInternal);
  }
  if (!partition.hash().Import(message.key, KeyHash(message.key), *writer, 0, message.expiry_ms,
                               Lsn(message.version))) {
    return Refused(false);
  }
  writer.reset();
  return Outcome::kApplied;
}

}  // namespace tidepool::daemon
