// Reads back what a durable stream has left in one segment, and finds the newest copy of each key.
//
//   recovery -> [replay] -> bytes of a segment
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/functional/function_ref.h>

#include <cstdint>

#include "proto/base/bytes.h"
#include "proto/base/ids.h"
#include "storage/layout.h"

namespace tidepool::storage {

// A segment as it was read.
struct SegmentImage {
  Bytes bytes;
  std::uint64_t number = 0;
  // Where its records end, if a mark says so; 0: at the record that ends it.
  std::uint32_t end = 0;
};

struct ReplayedRecord {
  RecordHeader header;
  Bytes key;
  Bytes value;
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
  std::uint64_t expiry_ms = 0;
};

// Calls `visit` for each record, padding left out, in their order, and returns where they end. 0:
// one of them is damaged, of a type that this version does not write here, or the end is missing;
// those before it were visited. For any bytes.
std::uint32_t ReplaySegment(const SegmentImage& image,
                            absl::FunctionRef<void(const ReplayedRecord&)> visit);

// The same of the records of a commit, whose checksum has been found right. False: not all of it is
// records. For any bytes, which are aligned to 8.
bool ReplayCommit(Bytes records, absl::FunctionRef<void(const ReplayedRecord&)> visit);

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

  // Of two copies with one LSN the first that was added counts.
  void Add(const ReplayedRecord& record, std::uint64_t location, bool in_ring);
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
