// Commit ring of `sync`: a change is on the device before a reply or a reader reveals it.
//
//   Partition::Publish -> [CommitRing] -> DeviceQueue; Checkpointer gives its room back
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "proto/base/result.h"
#include "storage/device/device_io.h"
#include "storage/durable/checkpoint.h"
#include "storage/log_record.h"
#include "storage/nvm/volume.h"

namespace tidepool::storage {

struct CommitCounters {
  std::uint64_t commits = 0;
  std::uint64_t records = 0;
  std::uint64_t written_bytes = 0;
};

// Owner core only. Never waits for a device.
//
// Changes have positions, from 1. One commit is under way at a time; changes that arrive meanwhile
// form the next commit, so many changes share a write. A change of more than a quarter of the ring
// or 64 KiB waits for a checkpoint instead, which is then made at once.
//
// 1. No block is written again before a checkpoint covers its content.
// 2. After a failed write the ring writes no further commits, and durable_position() stays.
class CommitRing {
 public:
  // The volume must outlive it.
  CommitRing(Volume& volume, CoreId core);
  ~CommitRing();
  CommitRing(const CommitRing&) = delete;
  CommitRing& operator=(const CommitRing&) = delete;

  // Opens the queue. Errors: as Device::OpenQueue.
  Status Open();
  // Continues behind the changes that recovery has replayed. Call it before the first change.
  void GoOn(const RingPosition& next);

  // Returns the change's position.
  std::uint64_t Add(const LogRecord& change);
  // Records that the partition is gone: its earlier changes in the ring do not count, nor its
  // records in segments with numbers below `below`. Takes a position.
  void AddDrop(PartitionId id, std::uint64_t below);
  // Enables the ring: a partition uses it. Until then drops are left out; checkpoints record them.
  void Use() { in_use_ = true; }
  std::uint64_t last_position() const { return position_; }
  // All changes up to this position are durable.
  std::uint64_t durable_position() const { return durable_; }

  // As Poll of Spiller. A value of `*error` other than 0 is the errno of a failed write.
  unsigned Poll(int* error);
  void Submit();
  int descriptor() const { return queue_->descriptor(); }

  // ---- Checkpoints.
  // Returns whether a checkpoint is needed: half of the ring is used, or a change waits for it.
  bool WantsCheckpoint() const;
  // Begins a checkpoint that covers all changes so far. Returns where the ring continues behind it.
  RingPosition Cut();
  // Frees the space that the checkpoint of the last Cut covers: it is durable.
  void FinishCut();
  // Stops all further writes.
  void Stop() { stopped_ = true; }

  const CommitCounters& counters() const { return counters_; }

 private:
  // Next commit in the making: room for its header, then records.
  struct Batch {
    BlockBuffer buffer;
    std::size_t bytes = 0;
    std::uint64_t last_position = 0;
    std::uint64_t records = 0;
  };

  std::byte* TakeSpace(std::size_t bytes);
  void StartCommit();
  void UpdateDurable();
  std::uint64_t PhysicalOf(std::uint64_t at) const { return at % ring_bytes_; }

  Volume& volume_;
  const CoreId core_;
  const std::uint64_t ring_bytes_;
  std::unique_ptr<DeviceQueue> queue_;
  std::deque<Batch> batches_;  // The first is under way, if writing_.
  std::vector<Batch> spare_;
  bool in_use_ = false;
  bool writing_ = false;
  bool stopped_ = false;
  bool is_full_ = false;  // The next commit waits for a checkpoint.

  // Growing offsets; PhysicalOf maps them into the ring. Content from tail_ on is needed.
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
  std::uint64_t next_number_;
  std::uint32_t last_crc32c_ = 0;

  std::uint64_t position_ = 0;  // Position of the last change.
  std::uint64_t committed_ = 0;
  std::uint64_t marked_ = 0;
  std::uint64_t durable_ = 0;
  std::deque<std::uint64_t> for_checkpoints_;  // Positions that are not in the ring.
  struct {
    std::uint64_t head = 0;
    std::uint64_t position = 0;
  } cut_;
  CommitCounters counters_;
};

}  // namespace tidepool::storage
