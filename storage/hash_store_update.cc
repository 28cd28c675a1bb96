// Writes that depend on the present value: counters, compare-and-swap, append, expiry.
#include <bit>
#include <cstring>
#include <limits>

#include "proto/base/check.h"
#include "proto/base/limits.h"
#include "storage/hash_store.h"
#include "storage/hash_store_inl.h"
#include "storage/partition.h"

namespace tidepool::storage {
namespace {

bool SameValue(Bytes a, Bytes b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

StatusCode UpdateI64(UpdateKind kind, std::uint64_t before, std::uint64_t operand,
                     std::uint64_t* after) {
  const auto a = static_cast<std::int64_t>(before);
  const auto b = static_cast<std::int64_t>(operand);
  switch (kind) {
    case UpdateKind::kAdd: {
      std::int64_t sum = 0;
      if (__builtin_add_overflow(a, b, &sum)) return StatusCode::kOutOfRange;
      *after = static_cast<std::uint64_t>(sum);
      return StatusCode::kOk;
    }
    case UpdateKind::kAnd:
      *after = before & operand;
      return StatusCode::kOk;
    case UpdateKind::kOr:
      *after = before | operand;
      return StatusCode::kOk;
    case UpdateKind::kXor:
      *after = before ^ operand;
      return StatusCode::kOk;
    case UpdateKind::kMin:
      *after = static_cast<std::uint64_t>(a < b ? a : b);
      return StatusCode::kOk;
    case UpdateKind::kMax:
      *after = static_cast<std::uint64_t>(a > b ? a : b);
      return StatusCode::kOk;
  }
  return StatusCode::kInvalidArgument;
}

StatusCode UpdateF64(UpdateKind kind, std::uint64_t before, std::uint64_t operand,
                     std::uint64_t* after) {
  const auto a = std::bit_cast<double>(before);
  const auto b = std::bit_cast<double>(operand);
  switch (kind) {
    case UpdateKind::kAdd:
      *after = std::bit_cast<std::uint64_t>(a + b);
      return StatusCode::kOk;
    case UpdateKind::kMin:
      *after = std::bit_cast<std::uint64_t>(b < a ? b : a);
      return StatusCode::kOk;
    case UpdateKind::kMax:
      *after = std::bit_cast<std::uint64_t>(b > a ? b : a);
      return StatusCode::kOk;
    case UpdateKind::kAnd:
    case UpdateKind::kOr:
    case UpdateKind::kXor:
      break;
  }
  return StatusCode::kInvalidArgument;
}

}  // namespace

HashOutcome HashStore::FetchUpdate(Bytes key, std::uint64_t hash, UpdateKind kind, CounterType type,
                                   std::uint64_t operand, std::uint64_t now_ms, bool if_present) {
  HashOutcome refused;
  if (BadPut(key, 8, 0)) {
    refused.code = StatusCode::kInvalidArgument;
    return refused;
  }
  const std::uint8_t flag = type == CounterType::kI64 ? kRecordI64 : kRecordF64;
  std::uint64_t after = 0;
  return Change(key, hash, now_ms, [&](Found found, LogRecord& change, HashOutcome& out) {
    if (found.slot != nullptr) {
      out.version = Lsn(found.record->lsn);
      if ((found.record->flags & kCounterFlags) != flag) {
        out.code = StatusCode::kInvalidArgument;
        return false;
      }
      TP_DCHECK(found.record->value_bytes == 8);
      out.previous = LoadUnaligned<std::uint64_t>(log_.StoredOf(*found.record).data());
    } else if (if_present) {
      out.code = StatusCode::kNotFound;
      return false;
    }
    out.code = type == CounterType::kI64 ? UpdateI64(kind, out.previous, operand, &after)
                                         : UpdateF64(kind, out.previous, operand, &after);
    if (out.code != StatusCode::kOk || HeldBack(found, hash)) return false;
    out.result = after;
    out.value_flags = flag;
    out.value_bytes = sizeof after;
    change.value = std::as_bytes(std::span(&after, 1));
    change.value_bytes = sizeof after;
    change.value_flags = flag;
    change.expiry_ms = ExpiryAt(kTtlKeep, found, now_ms);
    return true;
  });
}

HashOutcome HashStore::CompareAndSwap(Bytes key, std::uint64_t hash, Bytes expected, Bytes desired,
                                      std::uint64_t now_ms) {
  HashOutcome refused;
  if (BadPut(key, desired.size(), 0) || desired.size() > log_.extent_threshold_bytes()) {
    refused.code = StatusCode::kInvalidArgument;
    return refused;
  }
  return Change(key, hash, now_ms, [&](Found found, LogRecord& change, HashOutcome& out) {
    if (found.slot == nullptr) {
      out.code = StatusCode::kNotFound;
      return false;
    }
    // A value above the threshold cannot equal `expected`, which fits a frame.
    if (found.record->type != RecordType::kPut ||
        !SameValue(log_.StoredOf(*found.record), expected)) {
      SetValue(*found.record, found.location(), out);
      out.code = StatusCode::kFailedPrecondition;
      return false;
    }
    out.previous = found.record->lsn;
    change.value = desired;
    change.value_bytes = desired.size();
    change.value_flags = desired.size() == 8 ? found.record->flags & kCounterFlags : 0;
    change.expiry_ms = ExpiryAt(kTtlKeep, found, now_ms);
    return true;
  });
}

void HashStore::TakeOverValue(Found found, LogRecord& change) {
  const RecordHeader& record = *found.record;
  change.value_bytes = record.value_bytes;
  change.value_flags = record.flags & kCounterFlags;
  if (record.type == RecordType::kPut) {
    change.value = log_.StoredOf(record);
    return;
  }
  log_.ExtentSegmentsOf(found.location(), record, extent_segments_);
  change.extent_segments = extent_segments_;
  change.value = log_.ExtentRemainderOf(record);
}

HashOutcome HashStore::Append(Bytes key, std::uint64_t hash, Bytes suffix, std::uint64_t now_ms) {
  HashOutcome refused;
  if (BadPut(key, suffix.size(), 0)) {
    refused.code = StatusCode::kInvalidArgument;
    return refused;
  }
  bool large = false;
  // The length comes from what is found at each decision: making room may remove the record when
  // its time has passed since `now_ms` was read.
  HashOutcome outcome =
      Change(key, hash, now_ms, [&](Found found, LogRecord& change, HashOutcome& out) {
        const std::uint64_t before = found.slot == nullptr ? 0 : found.record->value_bytes;
        const std::uint64_t after = before + suffix.size();
        if (after > limits::kValueBytesMax) {
          out.code = StatusCode::kOutOfRange;
          return false;
        }
        large = after > log_.extent_threshold_bytes();
        if (large) return false;
        if (found.slot != nullptr) TakeOverValue(found, change);
        change.value_tail = suffix;
        change.value_bytes = after;
        change.value_flags = 0;
        change.expiry_ms = ExpiryAt(kTtlKeep, found, now_ms);
        out.value_bytes = after;
        return true;
      });
  return large ? AppendLarge(key, hash, suffix, now_ms) : outcome;
}

// A value that is or becomes an extent. Only its last piece is written again: appending to 1 GiB
// moves at most 1 MiB and the suffix.
HashOutcome HashStore::AppendLarge(Bytes key, std::uint64_t hash, Bytes suffix,
                                   std::uint64_t now_ms) {
  HashOutcome refused;
  refused.code = StatusCode::kResourceExhausted;
  const Found found = Look(key, hash, now_ms);
  const std::uint64_t before = found.slot == nullptr ? 0 : found.record->value_bytes;
  const std::uint64_t after = before + suffix.size();
  const std::uint64_t capacity = ExtentSegmentCapacity(log_.segment_bytes());

  // Keeps the record where it is while memory for the writer is found.
  HashOutcome present;
  ValueReader reader;
  std::uint64_t expiry_ms = ExpiryAt(kTtlKeep, found, now_ms);
  Lsn version;
  if (found.slot != nullptr) {
    SetValue(*found.record, found.location(), present);
    if (log_.blocked()) return Blocked();
    version = present.version;
    reader = ValueReader::Pin(*this, present);
  }
  std::span<const std::uint32_t> kept = reader.extent_segments();
  if (before < kept.size() * capacity) {
    // The suffix may go behind what the last segment has, if that is nowhere else.
    if (IsDurable(stream_)) {
      kept = kept.first(kept.size() - 1);
    } else if (!log_.ThawExtent(kept.back())) {
      log_.NoteRefused();
      return refused;
    }
  }
  ValueWriter writer(&log_, after);
  // The segments that the extent has stay; bytes beyond its present end are nobody's yet.
  writer.ShareSegments(kept);
  const std::uint64_t copied_from = std::min<std::uint64_t>(kept.size() * capacity, before);
  const auto give_up = [&] {
    writer.UnshareSegments();
    return refused;
  };
  for (std::uint64_t at = copied_from; at < before;) {
    const Bytes part = reader.Part(at, before - at);
    if (writer.Write(at, part) != StatusCode::kOk) return give_up();
    at += part.size();
  }
  if (writer.Write(before, suffix) != StatusCode::kOk) return give_up();

  HashOutcome outcome =
      Change(key, hash, now_ms, [&](Found now, LogRecord& change, HashOutcome& out) {
        // Making room has removed it, because its time has passed since `now_ms` was read; with it
        // went the segments that the writer shares.
        if ((now.slot == nullptr ? Lsn() : Lsn(now.record->lsn)) != version) {
          out.code = StatusCode::kResourceExhausted;
          return false;
        }
        change.value = writer.Staged();
        change.extent_segments = writer.segments_;
        change.value_bytes = after;
        change.expiry_ms = expiry_ms;
        out.value_bytes = after;
        return true;
      });
  if (outcome.code != StatusCode::kOk) return give_up();
  writer.segments_.clear();
  return outcome;
}

HashOutcome HashStore::Update(Bytes key, std::uint64_t hash,
                              absl::FunctionRef<UpdateDecision(const HashOutcome& present)> decide,
                              std::uint64_t now_ms) {
  HashOutcome refused;
  if (BadPut(key, 0, 0)) {
    refused.code = StatusCode::kInvalidArgument;
    return refused;
  }
  bool deleted = false;
  HashOutcome outcome =
      Change(key, hash, now_ms, [&](Found found, LogRecord& change, HashOutcome& out) {
        HashOutcome present;
        present.code = StatusCode::kNotFound;
        if (found.slot != nullptr) {
          present.code = StatusCode::kOk;
          SetView(*found.record, found.location(), present);
        }
        const UpdateDecision decision = decide(present);
        out.version = present.version;
        const bool deletes = decision.what == UpdateDecision::What::kDelete;
        deleted = deletes && found.slot != nullptr;
        if (deletes) change.type = LogRecordType::kDelete;
        if (decision.what != UpdateDecision::What::kStore) return deleted;
        if (BadPut(key, decision.value.size(), decision.value_flags) ||
            decision.value.size() > log_.extent_threshold_bytes()) {
          out.code = StatusCode::kInvalidArgument;
          return false;
        }
        change.value = decision.value;
        change.value_bytes = decision.value.size();
        change.value_flags = decision.value_flags;
        change.expiry_ms = ExpiryAt(kTtlKeep, found, now_ms);
        return true;
      });
  if (deleted && outcome.code == StatusCode::kOk) outcome.version = Lsn();
  return outcome;
}

HashOutcome HashStore::Expire(Bytes key, std::uint64_t hash, std::uint64_t ttl_ms,
                              std::uint64_t now_ms) {
  return Change(key, hash, now_ms, [&](Found found, LogRecord& change, HashOutcome& out) {
    if (found.slot == nullptr) {
      out.code = StatusCode::kNotFound;
      return false;
    }
    TakeOverValue(found, change);
    change.expiry_ms = ExpiryAt(ttl_ms, found, now_ms);
    return true;
  });
}

}  // namespace tidepool::storage
