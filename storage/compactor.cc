// Compaction in bounded slices. The expiry sweep is in expiry_sweep.cc.
#include "storage/compactor.h"

#include <algorithm>

#include "proto/base/check.h"
#include "proto/base/key_hash.h"

namespace tidepool::storage {
namespace {

// Segments looked at per choice: bounds it to some 10 us however large the store is.
constexpr std::uint32_t kChoiceSample = 4096;

// While reclaiming, making room takes from the reserve instead of reclaiming again.
class ReclaimingScope {
 public:
  explicit ReclaimingScope(Log& log) : log_(log) {
    TP_CHECK(!log.reclaiming());
    log_.set_reclaiming(true);
  }
  ~ReclaimingScope() { log_.set_reclaiming(false); }
  ReclaimingScope(const ReclaimingScope&) = delete;
  ReclaimingScope& operator=(const ReclaimingScope&) = delete;

 private:
  Log& log_;
};

}  // namespace

std::uint32_t Compactor::ChooseVictim(double dead_share_min, bool most_dead) {
  const SegmentTable& segments = log_.segments();
  const auto bytes = static_cast<double>(log_.segment_bytes());
  const std::uint32_t count = segments.end() - 1;
  std::uint32_t best = 0;
  double best_score = 0;
  for (std::uint32_t i = 0; i < std::min(count, kChoiceSample); ++i) {
    if (choose_from_ >= segments.end()) choose_from_ = 1;
    const std::uint32_t index = choose_from_++;
    const Segment& segment = segments[index];
    if (segment.state != SegmentState::kSealed || segment.pins != 0) continue;
    const double dead = static_cast<double>(log_.WinnableBytes(segment)) / bytes;
    if (dead < dead_share_min) continue;
    const double live = segment.live / bytes;
    const auto age = static_cast<double>(segments.next_number() - segment.number);
    const double score = most_dead ? dead : dead * age / (1 + live);
    if (score > best_score) {
      best_score = score;
      best = index;
    }
  }
  return best;
}

// How dead a segment must be to be worth moving: half while there is memory, down to a 32nd when a
// put would be refused otherwise. 2: no compaction now.
double Compactor::DeadShareWanted() const {
  const CoreMemory& memory = log_.memory();
  const std::uint64_t available = memory.BlocksAvailable();
  if (available <= 2) return 1.0 / 32;
  if (available < std::max<std::uint64_t>(memory.block_count_max() / 8, 4)) return 1.0 / 4;
  const std::uint64_t all = log_.segments().in_use() * log_.segment_bytes();
  return log_.dead_bytes() > all / 3 ? 1.0 / 2 : 2.0;
}

void Compactor::Begin(std::uint32_t victim) {
  Segment& segment = log_.segments()[victim];
  TP_CHECK(segment.state == SegmentState::kSealed);
  segment.state = SegmentState::kCompacting;
  victim_ = victim;
  victim_at_ = sizeof(SegmentHeader);
}

bool Compactor::RemoveExpired(Partition& partition, const RecordHeader& record,
                              std::uint64_t hash) {
  LogRecord removal;
  removal.partition = partition.id();
  removal.type = LogRecordType::kExpire;
  removal.key = Log::KeyOf(record);
  removal.hash = hash;
  if (partition.Apply(removal).value() == 0) return false;
  ++counters_.expired_records;
  return true;
}

bool Compactor::HandleTombstone(const RecordHeader& record, std::uint64_t location) {
  Partition* partition = finder_.FindLive(PartitionId(record.partition));
  const Bytes key = Log::KeyOf(record);
  if (partition == nullptr || Lsn(record.lsn) < partition->tombstone_floor() ||
      partition->hash().HasKey(key, KeyHash(key))) {
    log_.Kill(location);  // Nobody needs it, or a newer put says more.
    return true;
  }
  const std::uint64_t bytes = log_.BytesOf(record);
  if (log_.MakeRoom(Stream::kRelocated, bytes, MemoryClass::kReserve) != Room::kReady) return false;
  log_.Relocate(location);
  log_.Kill(location);
  counters_.relocated_bytes += bytes;
  return true;
}

bool Compactor::HandleRecord(std::uint64_t location) {
  const RecordHeader& record = *log_.At(location);
  if (record.type == RecordType::kTombstone) return HandleTombstone(record, location);
  const std::uint64_t hash = KeyHash(Log::KeyOf(record));
  std::uint64_t* slot = nullptr;
  bool dropped = false;
  Partition* partition = finder_.FindHolder(record, hash, location, &slot, &dropped);
  if (partition == nullptr) return true;  // Dead long since.
  if (dropped) {
    partition->hash().index_.Erase(slot);
    partition->hash().KillRecord(location, {});
    return true;
  }
  const std::uint64_t expiry_ms = log_.ExpiryOf(record);
  if (expiry_ms != 0 && expiry_ms <= finder_.LastNowMs() &&
      RemoveExpired(*partition, record, hash)) {
    return true;
  }
  const std::uint64_t bytes = log_.BytesOf(record);
  if (log_.MakeRoom(Stream::kRelocated, bytes, MemoryClass::kReserve) != Room::kReady) return false;
  const std::uint64_t moved = log_.Relocate(location);
  TagIndex::Replace(slot, moved);
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
    if (!HandleRecord(location)) {
      segment.state = SegmentState::kSealed;
      victim_ = 0;
      return Step::kNoMemory;
    }
    victim_at_ += static_cast<std::uint32_t>(bytes);
  }
  log_.FinishCompacted(victim_);
  victim_ = 0;
  ++counters_.compacted_segments;
  return Step::kDone;
}

bool Compactor::Slice(absl::FunctionRef<bool()> done) {
  while (!done()) {
    if (victim_ == 0) {
      const double wanted = DeadShareWanted();
      if (wanted > 1 || log_.dead_bytes() == nothing_at_dead_) return false;
      const std::uint32_t victim = ChooseVictim(wanted, false);
      if (victim == 0) {
        nothing_at_dead_ = log_.dead_bytes();
        return false;
      }
      nothing_at_dead_ = ~0ull;
      Begin(victim);
    }
    const Step step = Work(done);
    if (step == Step::kNoMemory) return false;
    if (step == Step::kDone) log_.FreeDead();
  }
  return true;
}

bool Compactor::ReclaimBlock() {
  const auto never = [] { return false; };
  log_.FreeDead();
  // What a slice has begun is finished first: its dead bytes are not in a sealed segment.
  while (log_.memory().BlocksAvailable() == 0) {
    if (victim_ == 0) {
      const std::uint32_t victim = ChooseVictim(1.0 / 8, true);
      if (victim == 0) return false;
      Begin(victim);
    }
    if (Work(never) == Step::kNoMemory) return false;
    log_.FreeDead();
  }
  return true;
}

}  // namespace tidepool::storage
