// Which of the records that are replayed count: of each key the newest.
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

// The newest record of each key of one partition, and beside it of each item the newest note of its
// lease. Keys are told apart by 96 bits of hash.
//
// What is found is written down as it comes, and settled in one go: spread over classes that fit
// into the cache, where a table finds what is of one key. (One table of all, which was looked at
// for each record, took 170 ns more for each: two misses of the cache, and its growth.) Memory
// beside --memory, until recovery is done: 40 bytes for each key and each record found since they
// were settled, with room for as many again, but no more than 2 MiB; twice that while they are
// settled; and the keys and notes that are kept.
class NewestRecords {
 public:
  struct Entry {
    std::uint64_t hash = 0;
    std::uint64_t lsn = 0;
    std::uint64_t location = 0;  // Or, if it was found in the commit ring, where there.
    std::uint64_t expiry_ms = 0;
    // The key, if keys are kept; of a note all of it; behind the key the links of an extent.
    const std::byte* kept = nullptr;
    std::uint32_t second = 0;  // KeyIdentity.
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
  // False: it ends there.
  using Visitor = absl::FunctionRef<bool(const Entry&)>;

  NewestRecords() = default;
  NewestRecords(NewestRecords&&) = default;
  NewestRecords& operator=(NewestRecords&&) = default;

  // Before anything is added: what fills its index needs keys, not only their hashes.
  void KeepKeys() { keeps_keys_ = true; }

  // Of two copies with one LSN the first that was added counts.
  void Add(const ReplayedRecord& record, std::uint64_t location, bool in_ring);
  // Nothing counts any more of what was found in the ring, or of which `is_dropped(location)` says
  // so.
  void Drop(absl::FunctionRef<bool(std::uint64_t location)> is_dropped);
  Lsn last_lsn() const { return last_lsn_; }

  // Behind all that is added, before what follows.
  void Settle();
  std::uint64_t puts() const { return puts_; }
  // Of the index those of a class have a part that stays in the cache while they are visited.
  bool ForEach(Visitor visit) const;

 private:
  // What most records need: those with more have it in more_.
  struct Found {
    std::uint64_t hash;
    std::uint64_t lsn;
    std::uint64_t location;
    std::uint32_t second;
    std::uint32_t payload_bytes;
    std::uint32_t bytes : 28;
    std::uint32_t type : 4;
    std::uint32_t more;  // Its place there and 1; 0: none.
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
  Chunk settled_;               // Of each key one.
  std::vector<Chunk> chunks_;   // Found since; each is full but for the last one.
  std::size_t chunk_left_ = 0;  // Room there.
  std::size_t unsettled_ = 0;
  std::vector<More> more_;
  std::vector<std::unique_ptr<std::byte[]>> kept_;
  std::byte* kept_end_ = nullptr;  // Of the last one.
  std::size_t kept_left_ = 0;      // There.
};

}  // namespace tidepool::storage
