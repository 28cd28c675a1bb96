// Compaction in bounded slices. The expiry sweep is in expiry_sweep.cc.
#include "storage/compactor.h"

#include <algorithm>

#include "proto/base/check.h"
#include "proto/base/failpoint.h"
#include "proto/base/key_hash.h"

namespace tidepool::storage {
namespace {

// What ReclaimBlock does not move: at 8 segments copied for one that is won, a put is better
// refused.
constexpr double kReclaimDeadShare = 1.0 / 8;

}  // namespace

Compactor::Compactor(Log& log, PartitionFinder& finder, std::uint32_t sample_segments)
    : log_(log), finder_(finder), sample_segments_(sample_segments) {
  TP_CHECK(sample_segments > 0);
}

std::uint32_t Compactor::ChooseVictim(double dead_share_min, bool most_dead) {
  const SegmentTable& segments = log_.segments();
  const auto bytes = static_cast<double>(log_.segment_bytes());
  std::uint32_t best = 0;
  double best_score = 0;
  for (std::uint32_t i = SampleSegments(); i-- > 0;) {
    if (choose_from_ >= segments.end()) choose_from_ = 1;
    const std::uint32_t index = choose_from_++;
    const Segment& segment = segments[index];
    if (segment.state != SegmentState::kSealed || segment.pins != 0 ||
        segment.stream == Stream::kCache || !IsAllowed(segment)) {
      continue;
    }
    const double dead = static_cast<double>(log_.WinnableBytes(segment)) / bytes;
    if (dead < dead_share_min) continue;
    const double live = segment.live / bytes;
    const auto age = static_cast<double>(segments.AgeOf(segment));
    const double score = most_dead ? dead : dead * age / (1 + live);
    if (score > best_score) {
      best_score = score;
      best = index;
    }
  }
  return best;
}

std::uint32_t Compactor::SampleSegments() const {
  return std::min(log_.segments().end() - 1, sample_segments_);
}

// How dead a segment must be to be worth moving: half while there is memory, down to a 32nd when a
// put would be refused otherwise. 2: no compaction now.
double Compactor::DeadShareWanted() const {
  const CoreMemory& memory = log_.memory();
  const std::uint64_t available = memory.BlocksAvailable();
  // Memory that is full because a device takes what it cannot hold is no reason.
  if (!log_.makes_room()) {
    if (available <= 2) return 1.0 / 32;
    if (available < std::max<std::uint64_t>(memory.block_count_max() / 8, 4)) return 1.0 / 4;
  }
  const std::uint64_t all = log_.segments().resident() * log_.segment_bytes();
  return log_.dead_bytes() > all / 3 ? 1.0 / 2 : 2.0;
}

void Compactor::Begin(std::uint32_t victim) {
  TP_CHECK(!has_victim());
  Segment& segment = log_.segments()[victim];
  TP_CHECK(segment.state == SegmentState::kSealed);
  TP_CHECK(IsAllowed(segment));
  segment.state = SegmentState::kCompacting;
  victim_ = victim;
  victim_at_ = std::max<std::uint32_t>(sizeof(SegmentHeader), segment.compacted_to);
  const bool may_go = IsDurable(segment.stream) && segment.tombstone_records > 0;
  oldest_ = may_go ? log_.OldestDurable(victim) : 0;
}

bool Compactor::RemoveExpired(Partition& partition, const RecordHeader& record) {
  LogRecord removal;
  removal.partition = partition.id();
  removal.type = LogRecordType::kExpire;
  removal.key = Log::KeyOf(record);
  removal.hash = KeyHash(removal.key);
  if (partition.Apply(removal).value() == 0) return false;
  ++counters_.expired_records;
  return true;
}

bool Compactor::MakeRoomFor(std::uint64_t location, std::uint64_t bytes) {
  return log_.MakeRoom(log_.RelocationStream(location), bytes, MemoryClass::kReserve) ==
         Room::kReady;
}

// Records in the victim itself go with it.
bool Compactor::IsNeeded(const RecordHeader& tombstone) {
  // Those of partitions that began behind a loss keep it from being told of them.
  if (tombstone.type == RecordType::kDrop) {
    return oldest_ < tombstone.lsn || log_.lost_below() != 0;
  }
  if (oldest_ >= TombstoneBelow(tombstone)) return false;
  Partition* partition = finder_.FindLive(PartitionId(tombstone.partition));
  if (partition == nullptr || Lsn(tombstone.lsn) < partition->tombstone_floor()) return false;
  if (partition->store().HasKey(Log::KeyOf(tombstone))) return false;  // A newer put says more.
  // A record that must be read to decide is taken for another key.
  if (log_.blocked()) log_.Unblock();
  return true;
}

bool Compactor::HandleTombstone(const RecordHeader& record, std::uint64_t location) {
  if (!IsNeeded(record)) {
    log_.Kill(location);
    return true;
  }
  const std::uint64_t bytes = log_.BytesOf(record);
  if (!MakeRoomFor(location, bytes)) return false;
  log_.Relocate(location);
  log_.Kill(location);
  counters_.relocated_bytes += bytes;
  return true;
}

bool Compactor::HandleRecord(std::uint64_t location) {
  const RecordHeader& record = *log_.At(location);
  if (record.type == RecordType::kPad) return true;
  if (record.type == RecordType::kTombstone || record.type == RecordType::kDrop) {
    return HandleTombstone(record, location);
  }
  std::uint64_t* slot = nullptr;
  bool dropped = false;
  Partition* partition = finder_.FindHolder(record, location, &slot, &dropped);
  if (partition == nullptr) return true;  // Dead long since.
  if (dropped) {
    partition->store().Discard(slot, location);
    return true;
  }
  const std::uint64_t expiry_ms = log_.ExpiryOf(record);
  if (expiry_ms != 0 && expiry_ms <= finder_.LastNowMs() && RemoveExpired(*partition, record)) {
    return true;
  }
  const std::uint64_t bytes = log_.BytesOf(record);
  if (!MakeRoomFor(location, bytes)) return false;
  const std::uint64_t moved = log_.Relocate(location);
  partition->store().Relocate(slot, record, moved);
  log_.Kill(location);  // Its extent segments, if any, now belong to the copy.
  counters_.relocated_bytes += bytes;
  return true;
}

Compactor::Step Compactor::Work(absl::FunctionRef<bool()> done) {
  const ReclaimingScope scope(log_);
  Segment& segment = log_.segments()[victim_];
  while (victim_at_ < segment.used && segment.live != 0) {
    if (done()) return Step::kMore;
    const std::uint64_t location = log_.segments().LocationOf(victim_, victim_at_);
    const std::uint64_t bytes = log_.BytesOf(*log_.At(location));
    starves_ = !HandleRecord(location);
    if (starves_) {
      segment.state = SegmentState::kSealed;
      segment.compacted_to = victim_at_;
      if (segment.slot != 0) {
        Compact(victim_);
      } else {
        log_.Offer(victim_);
      }
      victim_ = 0;
      return Step::kNoMemory;
    }
    victim_at_ += static_cast<std::uint32_t>(bytes);
  }
  TP_FAILPOINT("compact.moved");
  log_.FinishCompacted(victim_);
  victim_ = 0;
  ++counters_.compacted_segments;
  return Step::kDone;
}

// False: compaction is not wanted now, or a whole round has found no victim and nothing has changed
// since.
bool Compactor::MayFind(double wanted) {
  const bool in_vain = log_.dead_bytes() == nothing_.dead_bytes && wanted >= nothing_.dead_share;
  if (wanted <= 1 && !in_vain) return true;
  search_ = {};
  return false;
}

void Compactor::NoteNothingFound(double wanted) {
  if (search_.segments == 0) search_.dead_bytes = log_.dead_bytes();
  search_.segments += SampleSegments();
  // Victims passed for the larger wish may do for the lesser wish: only the larger is
  // refuted.
  search_.dead_share = std::max(search_.dead_share, wanted);
  if (search_.segments < log_.segments().end() - 1) return;
  nothing_ = {search_.dead_bytes, search_.dead_share};
  search_ = {};
}

bool Compactor::Slice(absl::FunctionRef<bool()> done) {
  while (!done()) {
    if (victim_ == 0 && !returned_.empty()) {
      const Returned next = returned_.back();
      returned_.pop_back();
      // All its records may have died since. Pins do not matter: an operation that wanted a record
      // during the read holds a pin, and the segment is not chosen twice.
      const Segment& segment = log_.segments()[next.segment];
      if (segment.state != SegmentState::kSealed || segment.number != next.number) continue;
      Begin(next.segment);
    }
    if (victim_ == 0) {
      const double wanted = DeadShareWanted();
      if (!MayFind(wanted)) return false;
      const std::uint32_t victim = ChooseVictim(wanted, false);
      if (victim == 0) {
        NoteNothingFound(wanted);
        return false;  // One sample per slice: the sweep is to have its turn.
      }
      search_ = {};
      nothing_ = {};
      Begin(victim);
    }
    const Step step = Work(done);
    if (step == Step::kNoMemory) return false;
    if (step == Step::kDone) log_.FreeDead();
  }
  return true;
}

std::uint32_t Compactor::ChooseVictimOfAll() {
  const std::uint32_t count = log_.segments().end() - 1;
  for (std::uint32_t looked = 0; looked < count; looked += SampleSegments()) {
    if (const std::uint32_t victim = ChooseVictim(kReclaimDeadShare, true)) return victim;
  }
  return 0;
}

bool Compactor::ReclaimBlock() {
  const auto never = [] { return false; };
  log_.FreeDead();
  // What a slice has begun is finished first: its dead bytes are not in a sealed segment.
  while (log_.memory().BlocksAvailable() == 0) {
    if (victim_ == 0) {
      const std::uint32_t victim = ChooseVictimOfAll();
      if (victim == 0) return false;
      Begin(victim);
    }
    if (Work(never) == Step::kNoMemory) return false;
    log_.FreeDead();
  }
  return true;
}

}  // namespace tidepool::storage
