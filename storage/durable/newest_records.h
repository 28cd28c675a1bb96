// Which of the records that are replayed count: of each key the newest.
//
//   recovery -> [newest_records]
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/functional/function_ref.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "proto/base/bytes.h"
#include "proto/base/ids.h"
#include "storage/durable/replay.h"

namespace tidepool::storage {

// The newest record of each key of one partition, and beside it of each item the newest note of its
// lease. Memory beside --memory: some 80 bytes for each key, and the keys and notes that are kept,
// until recovery is done. Keys are told apart by 96 bits of hash.
class NewestRecords {
 public:
  struct Entry {
    std::uint64_t lsn = 0;
    std::uint64_t location = 0;  // Or, if it was found in the commit ring, where there.
    std::uint64_t expiry_ms = 0;
    // The key, if keys are kept; of a note all of it; behind the key the links of an extent.
    const std::byte* kept = nullptr;
    std::uint32_t bytes = 0;
    std::uint32_t payload_bytes = 0;  // Key and value.
    std::uint32_t extent_bytes = 0;   // Of the value, if it is an extent.
    std::uint16_t key_bytes = 0;
    RecordType type = RecordType::kPut;  // kPut, kPutExtent, kTombstone, kLease.
    bool in_ring = false;

    Bytes key() const { return {kept, key_bytes}; }
    const std::byte* links() const { return kept + key_bytes; }
    bool is_put() const { return type == RecordType::kPut || type == RecordType::kPutExtent; }
  };
  NewestRecords() = default;
  NewestRecords(NewestRecords&&) = default;
  NewestRecords& operator=(NewestRecords&&) = default;

  // Before anything is added: what fills its index needs keys, not only their hashes.
  void KeepKeys() { keeps_keys_ = true; }

  void Prefetch(const KeyIdentity& key) const { entries_.prefetch(key); }
  // Of two copies with one LSN the first that was added counts.
  void Add(const ReplayedRecord& record, std::uint64_t location, bool in_ring);
  // Nothing counts any more of what was found in the ring, or of which `is_dropped(location)` says
  // so.
  void Drop(absl::FunctionRef<bool(std::uint64_t location)> is_dropped);
  Lsn last_lsn() const { return last_lsn_; }
  std::uint64_t puts() const { return puts_; }
  // The note of the lease of this item; null: there is none.
  const Entry* NoteOf(Bytes key) const;
  const absl::flat_hash_map<KeyIdentity, Entry>& entries() const { return entries_; }

 private:
  const std::byte* Keep(Bytes bytes, Bytes more = {});

  absl::flat_hash_map<KeyIdentity, Entry> entries_;
  Lsn last_lsn_;
  std::uint64_t puts_ = 0;
  bool keeps_keys_ = false;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;  // Of what is kept.
  std::byte* end_ = nullptr;                          // Of the last one.
  std::size_t left_ = 0;                              // There.
};

}  // namespace tidepool::storage
