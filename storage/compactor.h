// Moves live records out of mostly dead segments, and removes records whose time has passed.
//
// CoreStore::BackgroundSlice, or a put that found no memory -> [Compactor] -> Log, index.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <vector>

#include "proto/base/clock.h"
#include "storage/log.h"
#include "storage/partition.h"

namespace tidepool::storage {

// How compaction and expiry find the partitions of the records they meet.
class PartitionFinder {
 public:
  virtual ~PartitionFinder() = default;
  // The partition, live or being dropped, whose index refers to `location` through `slot`. Null:
  // the record is dead.
  virtual Partition* FindHolder(const RecordHeader& record, std::uint64_t location,
                                std::uint64_t** slot, bool* dropped) = 0;
  // The partition with this id, live or being filled, or null.
  virtual Partition* FindLive(PartitionId id) = 0;
  virtual std::uint64_t NowMs() = 0;
  // Last result of NowMs(): compaction inside an operation must not be ahead of the operation.
  virtual std::uint64_t LastNowMs() const = 0;
};

struct CompactorCounters {
  std::uint64_t compacted_segments = 0;
  std::uint64_t relocated_bytes = 0;
  std::uint64_t expired_records = 0;
};

// Owner core only. Victims are chosen by cost-benefit (dead share times age, over the cost of
// moving the rest); relocated records are kept apart from new records. A pinned victim is left
// alone.
class Compactor final : public Reclaimer {
 public:
  // `sample_segments`: looked at per choice of a victim.
  Compactor(Log& log, PartitionFinder& finder, std::uint32_t sample_segments);

  // Goes on until `done()`; true: more to move now.
  bool Slice(absl::FunctionRef<bool()> done);
  // Slices are in the middle of a round over all segments for something to move.
  bool searching() const { return search_.segments != 0; }
  // Removes expired records in the segments that have some, until `done()`. A round over the
  // segments starts at most once per second, and after a pause of 16 times its own length.
  bool SweepSlice(const Clock& clock, absl::FunctionRef<bool()> done);
  // A segment that was read back from a device to be compacted: it is the next victim, and its slot
  // on the device is won.
  void Compact(std::uint32_t segment) {
    returned_.push_back({segment, log_.segments()[segment].number});
  }
  // The next slices compact this sealed segment. No victim may be under way.
  void Begin(std::uint32_t victim);
  bool has_victim() const { return victim_ != 0; }
  // A victim is under way, and its memory will come free.
  bool WinsMemory() const { return has_victim() && log_.segments()[victim_].slot == 0; }
  // The last step has found no memory to move records to.
  bool starves() const { return starves_; }
  std::uint32_t returned() const { return static_cast<std::uint32_t>(returned_.size()); }
  // Compacts whole victims, the most dead of each sample first, until a block is free; false only
  // after a round over all segments. Victims are at least an eighth dead: at most 8 segments are
  // copied, some ms, for one gained block.
  bool ReclaimBlock() override;

  const CompactorCounters& counters() const { return counters_; }
  // True while the sweep is in the middle of this segment, whose earliest expiry is then unknown.
  bool IsSweeping(std::uint32_t segment) const {
    return sweeping_ && sweep_segment_ == segment && sweep_at_ != 0;
  }

 private:
  enum class Step : std::uint8_t { kDone, kMore, kNoMemory };

  // Durable streams: only segments below a checkpoint; recovery then has copies or the original.
  static bool IsAllowed(const Segment& segment) {
    return !IsDurable(segment.stream) || segment.marked;
  }
  std::uint32_t SampleSegments() const;
  std::uint32_t ChooseVictim(double dead_share_min, bool most_dead);
  std::uint32_t ChooseVictimOfAll();
  double DeadShareWanted() const;
  bool MayFind(double wanted);
  void NoteNothingFound(double wanted);
  Step Work(absl::FunctionRef<bool()> done);
  bool MakeRoomFor(std::uint64_t location, std::uint64_t bytes);
  // False: no memory to move it.
  bool HandleRecord(std::uint64_t location);
  bool IsNeeded(const RecordHeader& tombstone);
  bool HandleTombstone(const RecordHeader& record, std::uint64_t location);
  bool RemoveExpired(Partition& partition, const RecordHeader& record);

  Log& log_;
  PartitionFinder& finder_;
  const std::uint32_t sample_segments_;
  CompactorCounters counters_;

  struct Returned {
    std::uint32_t segment;
    std::uint64_t number;
  };
  std::vector<Returned> returned_;
  std::uint32_t victim_ = 0;  // 0: none.
  std::uint32_t victim_at_ = 0;
  bool starves_ = false;
  std::uint64_t oldest_ = 0;  // Of the durable segments beside it; 0: all is kept.
  std::uint32_t choose_from_ = 1;
  // A round over all segments: how many were looked at in vain, how many bytes were dead when it
  // began, and the largest share asked for on the way.
  struct Search {
    std::uint32_t segments = 0;
    std::uint64_t dead_bytes = 0;
    double dead_share = 0;
  };
  Search search_;
  // Refuted by the last round: no victim has at least this share with this many dead bytes.
  struct Nothing {
    std::uint64_t dead_bytes = ~0ull;
    double dead_share = 0;
  };
  Nothing nothing_;

  bool sweeping_ = false;
  std::uint32_t sweep_segment_ = 0;
  std::uint32_t sweep_at_ = 0;
  std::uint64_t sweep_number_ = 0;  // Number of the segment of sweep_at_.
  std::uint64_t sweep_min_ms_ = 0;
  std::uint64_t sweep_began_ns_ = 0;
  std::uint64_t sweep_not_before_ns_ = 0;
  std::uint64_t sweep_until_ms_ = 0;
};

}  // namespace tidepool::storage
