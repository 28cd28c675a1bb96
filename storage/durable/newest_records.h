// Which of the records that are replayed count: of each key the newest.
//
//   recovery -> [newest_records]
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/functional/function_ref.h>

#include <cstdint>
#include <utility>

#include "proto/base/bytes.h"
#include "proto/base/ids.h"
#include "storage/durable/replay.h"

namespace tidepool::storage {

// The newest record of each key of one partition. Memory beside --memory: some 70 bytes for each
// key, until recovery is done. Keys are told apart by 128 bits of hash.
class NewestRecords {
 public:
  struct Entry {
    std::uint64_t lsn = 0;
    std::uint64_t location = 0;  // Or, if it was found in the commit ring, where there.
    std::uint64_t expiry_ms = 0;
    std::uint32_t bytes = 0;
    bool in_ring = false;
    std::uint32_t payload_bytes = 0;  // Key and value.
    bool tombstone = false;
  };
  struct Key {
    std::uint64_t hash;  // KeyHash.
    std::uint64_t second;
    friend bool operator==(const Key&, const Key&) = default;
    template <typename H>
    friend H AbslHashValue(H state, const Key& key) {
      return H::combine(std::move(state), key.second);
    }
  };

  static Key KeyOf(const ReplayedRecord& record);
  void Prefetch(const Key& key) const { entries_.prefetch(key); }
  // `key`: KeyOf(record). Of two copies with one LSN the first that was added counts.
  void Add(const Key& key, const ReplayedRecord& record, std::uint64_t location, bool in_ring);
  // Nothing counts any more of what was found in the ring, or of which `is_dropped(location)` says
  // so.
  void Drop(absl::FunctionRef<bool(std::uint64_t location)> is_dropped);
  Lsn last_lsn() const { return last_lsn_; }
  std::uint64_t puts() const { return puts_; }
  const absl::flat_hash_map<Key, Entry>& entries() const { return entries_; }

 private:
  absl::flat_hash_map<Key, Entry> entries_;
  Lsn last_lsn_;
  std::uint64_t puts_ = 0;
};

}  // namespace tidepool::storage
