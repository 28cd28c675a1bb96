// Large values in and out without a copy of the whole: memory that is filled before it is
// published, and views that keep their memory while they are sent.
//
// stream frames -> [ValueWriter] -> HashStore::Put; HashStore::Get -> [ValueReader] -> stream
// frames.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "proto/base/bytes.h"
#include "proto/base/result.h"
#include "storage/core_memory.h"
#include "storage/layout.h"

namespace tidepool::storage {

class CoreStore;
class HashStore;
class Log;
class QueueStore;
class Store;

// A value above the extent threshold (1 MiB) as it is stored: full segments, then the remainder.
// `segments` and `remainder` are views into the store, valid as HashOutcome::value is.
struct Extent {
  std::uint64_t value_bytes = 0;
  std::span<const std::uint32_t> segments;
  Bytes remainder;
};

// Where a value lies that an operation has found. The views are valid until the next call that
// changes this core's store, or BackgroundSlice.
struct StoredValue {
  Bytes value;                     // Into a segment.
  const Extent* extent = nullptr;  // Replaces `value` above the extent threshold.
  std::uint64_t value_bytes = 0;   // Size of the value, in any place.
  std::uint64_t location = 0;      // Location of the record; 0: no value.
};

// Unpublished memory for a value of known size. Filled in any order, in parts of any size;
// invisible before HashStore::Put takes it. Destruction of an unused writer gives the memory back.
//
// On a node with devices the writer reserves all its memory before the first byte, with the blocks
// of its record: first come, first served over all cores (ArenaPool). A write that has begun thus
// never lacks memory. Without devices memory comes with the bytes, and Write may fail after Begin.
//
// Owner core only. The CoreStore must outlive it; a dropped partition does not matter to it.
class ValueWriter {
 public:
  // Returns: kOutOfRange (above 1 GiB), kResourceExhausted (it can never fit; or, without devices,
  // there is no room for it now).
  static Result<ValueWriter> Begin(CoreStore& core, std::uint64_t value_bytes);
  ValueWriter(ValueWriter&& other) noexcept;
  ValueWriter& operator=(ValueWriter&& other) noexcept;
  ~ValueWriter();

  // True while its reservation waits: Write refuses, and notes the reservation (Log::NoteRefused).
  bool waits() const { return reservation_ != nullptr && reservation_->waits(); }
  // True if its reservation was refused: memory and devices are full.
  bool refused() const { return reservation_ != nullptr && reservation_->refused(); }
  // Lets the store take an idle writer's memory while other writers wait: for values of clients.
  void set_revocable() { revocable_ = true; }
  // Null: nothing is reserved.
  const std::shared_ptr<Reservation>& reservation() const { return reservation_; }

  // Copies `part` to `offset`. Bytes never written are arbitrary: write all before Put. Returns:
  // kOk, kOutOfRange (beyond the value), kResourceExhausted (no byte was written), kAborted (the
  // writer was idle for 10 s while other writers waited for its memory).
  StatusCode Write(std::uint64_t offset, Bytes part);

  std::uint64_t value_bytes() const { return value_bytes_; }
  // True once some byte of each of its segments was written. Needed before Put.
  bool Complete() const;
  // Returns about the largest value that a node with devices can take.
  static std::uint64_t BytesMax(CoreStore& core);

 private:
  friend class HashStore;
  friend class QueueStore;
  friend class Log;
  static std::uint64_t BlocksFor(const ExtentShape& shape);
  ValueWriter(Log* log, std::uint64_t value_bytes);
  void Release();
  void MoveFrom(ValueWriter& other);
  StatusCode Refused() const;
  // Makes the reservation serve allocations, if there is a reservation.
  ReservationScope UseReservation() const;
  Status Reserve(CoreStore& core);
  void RevokeIfIdle(std::uint64_t now_ms);
  std::uint64_t StagedChunkBytes() const;
  // True once the chunk for the record's own part exists.
  bool Prepare();
  Bytes Staged() const;
  // For appending: begins with the segments of a published extent, and lets go of them again.
  void ShareSegments(std::span<const std::uint32_t> segments);
  void UnshareSegments();

  Log* log_ = nullptr;
  std::uint64_t value_bytes_ = 0;
  std::vector<std::uint32_t> segments_;  // 0 until first written (0 is no segment index).
  std::size_t shared_ = 0;               // First of them, which belong to a published extent.
  std::uint64_t staged_ = 0;             // Node offset of the chunk for the record's part.
  std::uint64_t staged_bytes_ = 0;       // Used bytes of that chunk; 0: no chunk.
  std::shared_ptr<Reservation> reservation_;
  const CoreStore* core_ = nullptr;  // For the clock; with a reservation only.
  std::uint64_t written_ms_ = 0;
  bool revocable_ = false;
  bool revoked_ = false;
};

// A pinned view of a stored value: the bytes stay unchanged during overwrites, deletes and
// compaction, until it is destroyed. A value fetched from a device keeps its buffer.
//
// Owner core only (the views may be read by a transport). The CoreStore must outlive it. A pin
// keeps a whole segment from being used again: hold it no longer than the sending takes.
class ValueReader {
 public:
  ValueReader() = default;
  // `stored` must be a still valid value of `store`, with a location.
  static ValueReader Pin(Store& store, const StoredValue& stored);
  ValueReader(ValueReader&& other) noexcept;
  ValueReader& operator=(ValueReader&& other) noexcept;
  ~ValueReader();

  std::uint64_t value_bytes() const { return value_bytes_; }
  // The longest contiguous view from `offset`, of at most `bytes_max`; empty at the value's end.
  Bytes Part(std::uint64_t offset, std::uint64_t bytes_max) const;
  std::span<const std::uint32_t> extent_segments() const { return extent_segments_; }

 private:
  void Release();

  Log* log_ = nullptr;
  std::uint64_t value_bytes_ = 0;
  std::vector<std::uint32_t> extent_segments_;
  std::uint32_t record_segment_ = 0;  // Holds tail_, unless `fetched_` does.
  std::shared_ptr<const std::byte> fetched_;
  Bytes tail_;  // Record's own part of the value: all of it, or an extent's remainder.
};

}  // namespace tidepool::storage
