// Counts a partition's records in DRAM and only on a device by looking at them on request: neither
// an operation nor a move of a record pays for the account.
//
//   daemon/core/residence -> [Partition::ResidenceWalk] -> index of the partition's kind,
//   SegmentTable
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <vector>

#include "storage/partition.h"

namespace tidepool::storage {

// A read of a record in DRAM waits for no device. A copy in the read cache is in DRAM, whatever its
// home; so is a durable record until it leaves. A large value is in DRAM if all its segments are.
struct Residence {
  std::uint64_t memory_records = 0;
  std::uint64_t device_records = 0;
  std::uint64_t cached_records = 0;  // Part of memory_records: copies in the read cache.
  // Keys and values; of large values the parts in DRAM. On devices an estimate: an unread record
  // counts with the average of its segment.
  std::uint64_t memory_bytes = 0;
  std::uint64_t device_bytes = 0;
  bool sampled = false;  // Not all records were looked at.

  // Scales the counts to a partition of this many records and bytes, so that they add up.
  Residence ScaledTo(std::uint64_t records, std::uint64_t payload_bytes) const;
};

// Examines about `looks_max` records, or all if there are fewer: evenly spread in kinds hash,
// ordered and queue. A priority queue's tree has no middle to begin at: at most 2^24 items are
// passed from its front, and each n-th is examined.
//
// Owner core only. Records that come, go or move between slices may be met twice or not at all.
class Partition::ResidenceWalk {
 public:
  explicit ResidenceWalk(std::uint64_t looks_max) : looks_max_(looks_max) {}

  // Goes on until `done()`, which is asked every 16 buckets or 64 items: some us. True: more to do.
  // Always with the same partition; a filter's has no records. Reads no device.
  bool Slice(Partition& partition, absl::FunctionRef<bool()> done);
  // Counts of examined records.
  const Residence& found() const { return found_; }

 private:
  void Begin(std::uint64_t places, std::uint64_t records_per_place);
  std::uint64_t NextPlace() { return next_++ * places_ / wanted_; }
  bool HashSlice(HashStore& hash, const Log& log, absl::FunctionRef<bool()> done);
  bool ArrivalSlice(const QueueStore& queue, const Log& log, absl::FunctionRef<bool()> done);
  bool PrioritySlice(const QueueStore& queue, const Log& log, absl::FunctionRef<bool()> done);
  void LookAtDelivered(const QueueStore& queue, const Log& log);
  void Look(const Log& log, std::uint64_t location);

  const std::uint64_t looks_max_;
  bool begun_ = false;
  std::uint64_t places_ = 0;  // Buckets, ids or items, as they were when it began;
  std::uint64_t wanted_ = 0;  // of these,
  std::uint64_t next_ = 0;    // and how many were passed.
  std::uint64_t first_id_ = 0;
  std::vector<std::byte> from_;  // Priority queue: key to continue at.
  std::vector<std::uint32_t> segments_;
  Residence found_;
};

}  // namespace tidepool::storage
