// The commit ring of `sync`: what was changed is on the device before anybody hears of it.
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
// Changes have positions, from 1. One commit is under way at a time; what is changed meanwhile is
// the next one, so that many changes share a write. A change of more than a quarter of the ring or
// 64 KiB does not go here: it waits for a checkpoint, which then is made at once.
//
// 1. No block is written again before a checkpoint covers what it holds.
// 2. After a write that failed there are no further ones, and durable_position() stays.
class CommitRing {
 public:
  // The volume must outlive it.
  CommitRing(Volume& volume, CoreId core);
  ~CommitRing();
  CommitRing(const CommitRing&) = delete;
  CommitRing& operator=(const CommitRing&) = delete;

  // Errors: those of Device::OpenQueue.
  Status Open();
  // Before the first change: goes on behind what recovery has replayed.
  void GoOn(const RingPosition& next);

  // Returns the change's position.
  std::uint64_t Add(const LogRecord& change);
  // The partition is gone: what the ring has of it so far does not count, nor what segments with
  // numbers below `below` have. Takes a position.
  void AddDrop(PartitionId id, std::uint64_t below);
  // Some partition's changes come here. Until then drops are left out: checkpoints tell them.
  void Use() { in_use_ = true; }
  std::uint64_t last_position() const { return position_; }
  // All changes up to this one are durable.
  std::uint64_t durable_position() const { return durable_; }

  // As Spiller's. Other than 0: `*error`, a write has failed with this errno.
  unsigned Poll(int* error);
  void Submit();
  int descriptor() const { return queue_->descriptor(); }

  // ---- Checkpoints.
  // A checkpoint is needed: half of the ring is used, or a change waits for one.
  bool WantsCheckpoint() const;
  // A checkpoint covers what was changed so far: where the ring goes on behind it.
  RingPosition Cut();
  // That checkpoint is durable.
  void FinishCut();
  // Nothing is written any more.
  void Stop() { stopped_ = true; }

  const CommitCounters& counters() const { return counters_; }

 private:
  // What one commit will be: room for its header, then records.
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

  // Offsets that only grow; where they lie is PhysicalOf. What lies from tail_ on is needed.
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
  std::uint64_t next_number_;
  std::uint32_t last_crc32c_ = 0;

  std::uint64_t position_ = 0;  // Of the last change.
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
