// Brings back the durable partitions of one core as they were at its last mark.
//
//   CoreStore::Recover -> [Recovery] -> Volume, replay, CoreStore
#pragma once

#include <absl/container/flat_hash_map.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "proto/base/clock.h"
#include "proto/base/ids.h"
#include "proto/base/result.h"
#include "storage/device/device_io.h"
#include "storage/durable/commit.h"
#include "storage/durable/mark.h"
#include "storage/durable/newest_records.h"
#include "storage/durable/replay.h"
#include "storage/nvm/slot_scan.h"
#include "storage/partition.h"

namespace tidepool::storage {

class CoreStore;

struct RecoverablePartition {
  PartitionId id;
  Term term;  // The greatest under which it was served.
  PartitionOptions options;
};

struct RecoveryReport {
  struct Of {
    PartitionId id;
    std::uint64_t records = 0;
    Lsn last_lsn;
    // Other than kOk: it has what was found, but something is missing, and nobody knows which keys.
    // kDataLoss (a segment is damaged), kDeviceError (a segment cannot be read).
    StatusCode lost = StatusCode::kOk;
  };
  std::vector<Of> partitions;
  std::uint64_t bytes_read = 0;
  std::uint64_t duration_ns = 0;
  std::uint64_t durable_at_ms = 0;  // Wall time of the mark that was found. 0: none was.
};

// Owner core only, used once. Waits for the devices.
//
// Segments are replayed from the one that was begun last backwards, so that a partition's drop is
// known before what it has dropped. Nothing of them stays in DRAM; the index is made of what was
// read. What lay beyond the mark is made unreadable before the next mark, which ends recovery: a
// crash at any moment of it leaves the old mark and all that it needs. Of the ring only commits of
// the mark's incarnation count: a torn one of before lies where the next is written.
class Recovery {
 public:
  Recovery(CoreStore& core, const Clock& clock) : core_(core), clock_(clock) {}
  // Errors: as CoreStore::Recover.
  Result<RecoveryReport> Run(std::span<const RecoverablePartition> partitions);

 private:
  struct OfPartition {
    const RecoverablePartition* wanted = nullptr;  // Null: nobody wants it.
    std::uint64_t floor = 0;  // Of what is in segments with smaller numbers nothing counts.
    bool unwanted_found = false;
    bool dropped_in_ring = false;  // And only there: nothing of what is in segments counts.
    StatusCode lost = StatusCode::kOk;
    NewestRecords newest;
    bool IsSync() const {
      return wanted != nullptr && wanted->options.durability == Durability::kSync;
    }
  };
  struct Visited {
    ReplayedRecord record;
    NewestRecords::Key key{};
    std::uint64_t location = 0;
    std::uint32_t partition = 0;
  };
  struct Damaged {
    std::uint64_t number;
    StatusCode code;
  };

  Status ReadMarks();
  void SortSegments();
  Status ReplayAll();
  // `read`: of the image.
  Status Replay(const FoundSegment& found, const Status& read, Bytes image);
  void Visit(const ReplayedRecord& record, std::uint64_t number, std::uint32_t segment);
  void AddVisited();
  Status ReplayRing();
  bool ReplayCommitAt(std::uint64_t offset);
  void VisitCommitted(const ReplayedRecord& record, std::uint64_t at);
  bool IsOurs(const CommitHeader& header) const;
  bool HasLaterCommit() const;
  Status FillOne(Partition& partition, const NewestRecords& newest);
  bool AppendCommitted(Partition& partition, std::uint64_t hash, const NewestRecords::Entry& entry);
  Status Fill(std::span<const RecoverablePartition> partitions);
  Status WipeBeyond();
  Status End();
  OfPartition& Of(std::uint32_t id) { return partitions_[id]; }
  std::uint32_t EndOf(std::uint64_t number) const;

  CoreStore& core_;
  const Clock& clock_;
  DeviceQueues queues_;
  std::optional<Mark> mark_;
  std::uint64_t mark_block_ = 0;
  std::vector<FoundSegment> counted_;  // Below the mark, the youngest first.
  std::vector<FoundSegment> beyond_;
  std::vector<std::uint32_t> segments_;  // Adopted.
  std::vector<Damaged> damaged_;
  absl::flat_hash_map<std::uint32_t, OfPartition> partitions_;
  std::array<Visited, 16> visited_;  // Of the image at hand; on their way to their partitions.
  std::size_t visited_count_ = 0;
  BlockBuffer ring_;                // Its content, if it counts.
  std::optional<RingPosition> at_;  // Up to where it was replayed.
  RecoveryReport report_;
};

}  // namespace tidepool::storage
