// Interface of a partition's data for the machinery of its core, for all kinds: compaction, expiry,
// accounts, dropping, checks. The operations themselves belong to the kinds and are not virtual.
//
// CoreStore, Compactor -> [Store] <- HashStore, ...
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <span>
#include <vector>

#include "proto/base/bytes.h"
#include "proto/base/ids.h"
#include "storage/layout.h"
#include "storage/log.h"
#include "storage/log_record.h"

namespace tidepool::storage {

struct IndexUsage {
  std::uint64_t used_bytes = 0;
  std::uint64_t allocated_bytes = 0;  // Cut from blocks and chunks; at least used_bytes.
  std::uint64_t rebuilt_buckets = 0;  // Since it was made.
};

// Owner core only.
class Store {
 public:
  virtual ~Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // False: memory for the first index was refused; the store must not be used.
  virtual bool valid() const = 0;
  // Records in the store, including expired records that were not yet removed.
  virtual std::uint64_t size() const = 0;
  // Keys and values of these records, without storage overhead.
  virtual std::uint64_t payload_bytes() const = 0;
  virtual IndexUsage index_usage() const = 0;

  // Applies a change that was decided elsewhere: expiry, recovery, a replica. Looks the record up,
  // makes room, and passes Partition::Stamp and Partition::Publish. Returns its version, or 0: no
  // memory.
  virtual Lsn Apply(const LogRecord& record) = 0;

  // ---- Compaction. `record` lies at `location`.
  // Returns the word that refers to the record, or to its copy in the read cache; null if there is
  // no reference any more (the record is dead).
  virtual std::uint64_t* FindSlot(const RecordHeader& record, std::uint64_t location) = 0;
  // Redirects `slot` and all other references to `moved`, after the record was copied. A copy in
  // the read cache, if they referred to it, is dropped.
  virtual void Relocate(std::uint64_t* slot, const RecordHeader& record, std::uint64_t moved) = 0;
  // Discards a record of a dropped partition. `slot` as FindSlot gave it.
  virtual void Discard(std::uint64_t* slot, std::uint64_t location) = 0;
  // Returns whether a record of this key exists, so that a tombstone for it is useless.
  virtual bool HasKey(Bytes key) = 0;

  // ---- Background work.
  // Work on the index that is due, until `done()` or until the log is blocked(). True: more to do.
  virtual bool IndexSlice(absl::FunctionRef<bool()> done) = 0;
  // Frees all records of a dropped partition, from `*position` on (0 at first). True: more to do.
  virtual bool FreeSlice(std::uint64_t* position, absl::FunctionRef<bool()> done) = 0;

  // ---- Tests: ends the program at the first broken invariant.
  virtual void CheckInvariants() const = 0;
  // Calls `visit` with the location of every record.
  virtual void VisitRecords(absl::FunctionRef<void(std::uint64_t)> visit) const = 0;

 protected:
  explicit Store(Log& log) : log_(log) {}

  // The record and its extent's segments, except the first of them that `segments_kept` names.
  void KillRecord(std::uint64_t location, std::span<const std::uint32_t> segments_kept);

  Log& log_;

 private:
  friend class ValueReader;
  std::vector<std::uint32_t> scratch_segments_;
};

}  // namespace tidepool::storage
