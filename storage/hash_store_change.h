// The frame of every write of HashStore, for the files that implement it.
#pragma once

#include "storage/hash_store.h"
#include "storage/partition.h"

namespace tidepool::storage {

template <typename Decide>
HashOutcome HashStore::Change(Bytes key, std::uint64_t hash, std::uint64_t now_ms,
                              Decide&& decide) {
  for (;;) {
    const Found found = Look(key, hash, now_ms);
    HashOutcome outcome;
    LogRecord change;
    change.partition = partition_.id();
    change.key = key;
    change.hash = hash;
    if (!decide(found, change, outcome)) return outcome;
    const Room room = found.stuck ? Room::kNone : MakeRoom(change, found);
    if (room == Room::kReady) [[likely]] {
      outcome.version = partition_.ApplyFound(change, found);
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
