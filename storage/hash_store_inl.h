// Inline functions that the files of HashStore share: the look-up of a key, and the frame of every
// write.
#pragma once

#include <cstring>

#include "storage/hash_store.h"
#include "storage/partition.h"
#include "storage/tag_find.h"

namespace tidepool::storage {

// Most keys are short: for them a call of memcmp costs more than the comparison.
[[gnu::always_inline]] inline bool SameKey(const std::byte* a, const std::byte* b,
                                           std::size_t count) {
  if (count >= 8 && count <= 16) [[likely]] {
    return ((LoadUnaligned<std::uint64_t>(a) ^ LoadUnaligned<std::uint64_t>(b)) |
            (LoadUnaligned<std::uint64_t>(a + count - 8) ^
             LoadUnaligned<std::uint64_t>(b + count - 8))) == 0;
  }
  if (count >= 4 && count < 8) {
    return ((LoadUnaligned<std::uint32_t>(a) ^ LoadUnaligned<std::uint32_t>(b)) |
            (LoadUnaligned<std::uint32_t>(a + count - 4) ^
             LoadUnaligned<std::uint32_t>(b + count - 4))) == 0;
  }
  return count == 0 || std::memcmp(a, b, count) == 0;
}

[[gnu::always_inline]] inline HashStore::Found HashStore::LookRaw(Bytes key, std::uint64_t hash) {
  const SegmentTable::Locator at = locator_;
  const std::byte* const wanted = key.data();
  const std::size_t count = key.size();
  RecordHeader* record = nullptr;
  Log* const log = &log_;
  const bool was_blocked = log->blocked();  // By an earlier look-up of the same operation.
  std::uint64_t* slot =
      index_.Find(hash, [at, log, wanted, count, &record](std::uint64_t location) {
        record = at.Find(location);
        if (record == nullptr) [[unlikely]] {
          record = log->Look(location);
          if (record == nullptr) return false;
        }
        return record->key_bytes == count && SameKey(Log::KeyOf(*record).data(), wanted, count);
      });
  if (slot == nullptr) return {};
  // A record on the device had the same tag, but another key.
  if (log->blocked() && !was_blocked) [[unlikely]]
    log->Unblock();
  return {slot, record};
}

[[gnu::always_inline]] inline HashStore::Found HashStore::Look(Bytes key, std::uint64_t hash,
                                                               std::uint64_t now_ms) {
  const Found found = LookRaw(key, hash);
  if (found.slot == nullptr || (found.record->flags & kRecordExpiry) == 0) [[likely]]
    return found;
  return LookExpiring(found, key, hash, now_ms);
}

[[gnu::always_inline]] inline void HashStore::SetView(const RecordHeader& record,
                                                      std::uint64_t location,
                                                      HashOutcome& outcome) {
  outcome.version = Lsn(record.lsn);
  outcome.value_flags = record.flags & kCounterFlags;
  outcome.value_bytes = record.value_bytes;
  outcome.location = location;
  if (record.type == RecordType::kPut) [[likely]] {
    outcome.value = {reinterpret_cast<const std::byte*>(&record + 1) + record.key_bytes,
                     record.value_bytes};
    return;
  }
  SetExtent(location, record, outcome);
}

template <typename Decide>
HashOutcome HashStore::Change(Bytes key, std::uint64_t hash, std::uint64_t now_ms, Decide&& decide,
                              bool blind) {
  for (;;) {
    Found found = Look(key, hash, now_ms);
    HashOutcome outcome;
    if (log_.blocked()) [[unlikely]] {
      if (blind) found = FindUnreadable(key, hash);
      if (found.slot == nullptr) return Blocked();
      log_.Unblock();
    }
    LogRecord change;
    change.partition = partition_.id();
    change.key = key;
    change.hash = hash;
    const bool changes = decide(found, change, outcome);
    if (log_.blocked()) [[unlikely]]
      return Blocked();  // By a large value.
    if (!changes) return outcome;
    const Room room = found.stuck() ? Room::kNone : MakeRoom(change, found);
    if (room == Room::kReady) [[likely]] {
      outcome.version = ApplyFound(change, found);
      return outcome;
    }
    if (room == Room::kNone) {
      partition_.CountRefused();
      HashOutcome refused;
      refused.code = StatusCode::kResourceExhausted;
      return refused;
    }
  }
}

}  // namespace tidepool::storage
