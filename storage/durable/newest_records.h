// Selects the replayed records that count: the newest record of each key.
//
//   recovery -> [newest_records]
#pragma once

#include <absl/functional/function_ref.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "proto/base/bytes.h"
#include "proto/base/ids.h"
#include "storage/durable/replay.h"
#include "storage/huge_array.h"

namespace tidepool::storage {

// The newest record of each key of a partition, and the newest lease note of each item. 96 bits of
// hash distinguish keys.
//
// Add stores each record in a list. Settle divides the list into classes that fit into the cache,
// and finds the records of a key through a table. (A single table for all, with a look-up per
// record, took 170 ns more for each: two cache misses, and its growth.) Memory beside --memory,
// until recovery ends: 40 bytes for each key and for each record found since the last Settle. Spare
// room is as large again, but at most 2 MiB; during Settle all is doubled. Kept keys and notes come
// on top.
class NewestRecords {
 public:
  struct Entry {
    std::uint64_t hash = 0;
    std::uint64_t lsn = 0;
    std::uint64_t location = 0;  // In the ring if in_ring.
    std::uint64_t expiry_ms = 0;
    // The key, if keys are kept; the whole record of a note; behind the key the links of an extent.
    const std::byte* kept = nullptr;
    std::uint32_t second = 0;  // KeyIdentity.
    std::uint32_t bytes = 0;
    std::uint32_t payload_bytes = 0;  // Key and value.
    std::uint32_t extent_bytes = 0;   // Size of the value if it is an extent.
    std::uint16_t key_bytes = 0;
    RecordType type = RecordType::kPut;  // kPut, kPutExtent, kTombstone, kLease.
    bool in_ring = false;

    Bytes key() const { return {kept, key_bytes}; }
    const std::byte* links() const { return kept + key_bytes; }
    bool is_put() const { return type == RecordType::kPut || type == RecordType::kPutExtent; }
  };
  // Returns false to end the visit.
  using Visitor = absl::FunctionRef<bool(const Entry&)>;

  NewestRecords() = default;
  NewestRecords(NewestRecords&&) = default;
  NewestRecords& operator=(NewestRecords&&) = default;

  // Call it before the first Add: an index is filled from keys, not only from their hashes.
  void KeepKeys() { keeps_keys_ = true; }

  // Adds a record. If two copies have the same LSN, the copy that was added first counts.
  void Add(const ReplayedRecord& record, std::uint64_t location, bool in_ring);
  // Removes the records found in the ring, and each record for which `is_dropped(location)` is
  // true.
  void Drop(absl::FunctionRef<bool(std::uint64_t location)> is_dropped);
  Lsn last_lsn() const { return last_lsn_; }

  // Settles all added records. Call it before the methods below.
  void Settle();
  std::uint64_t puts() const { return puts_; }
  // Visits class by class: the part of the index that a class needs stays in the cache meanwhile.
  bool ForEach(Visitor visit) const;

 private:
  // Fields that most records need; more_ has the other fields.
  struct Found {
    std::uint64_t hash;
    std::uint64_t lsn;
    std::uint64_t location;
    std::uint32_t second;
    std::uint32_t payload_bytes;
    std::uint32_t bytes : 28;
    std::uint32_t type : 4;
    std::uint32_t more;  // Index in more_ plus 1; 0: no entry there.
  };
  static_assert(sizeof(Found) == 40);
  struct More {
    std::uint64_t expiry_ms;
    const std::byte* kept;
    std::uint32_t extent_bytes;
    std::uint16_t key_bytes;
    bool in_ring;
  };
  struct Chunk {
    HugeArray<Found> found;
    std::size_t count = 0;
  };

  Entry EntryOf(const Found& found) const;
  const std::byte* Keep(Bytes bytes, Bytes more = {});
  Chunk Spread(std::size_t class_bits, std::vector<std::size_t>* ends);
  static std::size_t KeepNewest(Found* from, std::size_t count, Found* to,
                                std::vector<std::uint32_t>* table);

  Lsn last_lsn_;
  std::uint64_t puts_ = 0;
  bool keeps_keys_ = false;
  Chunk settled_;               // One record for each key.
  std::vector<Chunk> chunks_;   // Found since; each is full but for the last.
  std::size_t chunk_left_ = 0;  // Room in the last chunk.
  std::size_t unsettled_ = 0;
  std::vector<More> more_;
  std::vector<std::unique_ptr<std::byte[]>> kept_;
  std::byte* kept_end_ = nullptr;  // Free part of the last block of kept_.
  std::size_t kept_left_ = 0;      // Bytes free there.
};

}  // namespace tidepool::storage
