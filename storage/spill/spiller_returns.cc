// Reads segments back from a device for compaction, so that their slots serve again.
#include <algorithm>
#include <utility>

#include "proto/base/failpoint.h"
#include "proto/base/log.h"
#include "storage/nvm/record_check.h"
#include "storage/spill/spiller.h"

namespace tidepool::storage {
namespace {

constexpr std::uint32_t kReturnsMax = 2;
constexpr std::uint32_t kReturnSampleSegments = 4096;
constexpr std::uint64_t kOldestPauseMs = 1000;
// Minimum of free slots. With a 16th of the slots on a device three quarters full, compaction wrote
// a fifth more. 4 GB/s fill 64 slots in 30 ms.
constexpr std::uint64_t kSlotsFreeMin = 4;
constexpr std::uint64_t kSlotsFreeMax = 64;

}  // namespace

// By cost-benefit, as in DRAM; when hardly a slot is left, whatever has an eighth to win.
std::uint32_t Spiller::ChooseReturn(std::uint64_t now_ms) {
  const SegmentTable& segments = log_.segments();
  const auto bytes = static_cast<double>(log_.segment_bytes());
  std::uint32_t best = 0;
  double best_score = 0;
  for (std::uint32_t i = std::min(segments.end() - 1, kReturnSampleSegments); i-- > 0;) {
    if (choose_from_ >= segments.end()) choose_from_ = 1;
    const std::uint32_t index = choose_from_++;
    const Segment& segment = segments[index];
    // A durable segment in DRAM counts too: the gain is its slot.
    const bool durable = IsDurable(segment.stream);
    const bool is_there = segment.state == SegmentState::kSpilled ||
                          (durable && segment.state == SegmentState::kSealed);
    if (!is_there || segment.pins != 0 || segment.unsound || segment.extent ||
        (durable && !segment.marked)) {
      continue;
    }
    // The expired share is unknown and taken for half. Only dead bytes count, not the unused end:
    // copies of large records leave an unused end as well, and would return for ever.
    const double live = segment.live / bytes * (segment.expiry_min_ms <= now_ms ? 0.5 : 1.0);
    const double dead =
        static_cast<double>(log_.WinnableBytes(segment)) / bytes + (segment.live / bytes - live);
    if (dead < 1.0 / 8) continue;
    const auto age = static_cast<double>(segments.AgeOf(segment));
    const double score = dead * age / (1 + live);
    if (score > best_score) {
      best_score = score;
      best = index;
    }
  }
  return best;
}

std::uint64_t Spiller::SlotsWanted() const {
  return std::max(
      {std::clamp<std::uint64_t>(volume_.slot_count() / 64, kSlotsFreeMin, kSlotsFreeMax),
       SlotsKept() + 2, durable_.SlotsWanted()});
}

// Returns the segment that holds tombstones back. The search runs once per second, then repeatedly
// until no segment is found.
std::uint32_t Spiller::ChooseOldest(std::uint64_t now_ms) {
  if (now_ms < oldest_not_before_ms_) return 0;
  const std::uint32_t oldest = log_.OldestForTombstones();
  if (oldest == 0) oldest_not_before_ms_ = now_ms + kOldestPauseMs;
  return oldest;
}

void Spiller::ReturnOne(std::uint64_t now_ms) {
  if (broken_ || returns_ + compactor_.returned() >= kReturnsMax) return;
  std::uint32_t segment = ChooseOldest(now_ms);
  nothing_returns_ = false;
  if (segment == 0 && volume_.slots_free() < SlotsWanted()) {
    segment = ChooseReturn(now_ms);
    nothing_returns_ = segment == 0;
  }
  if (segment == 0) return;
  if (log_.segments()[segment].state == SegmentState::kSealed) return compactor_.Compact(segment);
  const std::uint64_t frame = log_.memory().AllocateBlock(MemoryClass::kReserve);
  nothing_returns_ = frame == 0;
  if (frame == 0) return;
  ++returns_;
  log_.Pin(segment);
  const std::uint32_t taken = TakeIo();
  Io& io = ios_[taken];
  io.what = Io::What::kReturn;
  io.segment = segment;
  io.bytes = UpToBlock(log_.segments()[segment].used);
  io.frame = frame;
  StartIo(taken);
}

void Spiller::FinishReturn(Io& io, int error) {
  --returns_;
  log_.Unpin(io.segment);
  const Segment& segment = log_.segments()[io.segment];
  // All that it had may have died meanwhile.
  const bool wanted = segment.state == SegmentState::kSpilled;
  counters_.read_bytes += io.bytes;
  if (!wanted || error != 0 || !IsSound(io)) {
    log_.memory().FreeBlock(io.frame);
    if (!wanted) return;
    ++counters_.failed_reads;
    log_.segments()[io.segment].unsound = true;
    log::Error("a segment on the device cannot be read to be compacted, and keeps its place");
    return;
  }
  TP_FAILPOINT("spill.returned");
  ++counters_.returned_segments;
  log_.ReturnToMemory(io.segment, io.frame);
  compactor_.Compact(io.segment);
}

// Returns whether each record of a segment that was read back is intact.
bool Spiller::IsSound(const Io& io) const {
  const Segment& segment = log_.segments()[io.segment];
  const std::byte* base = log_.memory().At(io.frame);
  const auto& header = *reinterpret_cast<const SegmentHeader*>(base);
  if (header.number != segment.number || header.crc32c != SegmentChecksum(header)) return false;
  for (std::uint32_t at = sizeof(SegmentHeader); at < segment.used;) {
    const auto& record = *reinterpret_cast<const RecordHeader*>(base + at);
    const std::uint64_t left = segment.used - at;
    if (left < sizeof record || log_.BytesOf(record) > left ||
        record.crc32c != RecordChecksum(record, log_.BytesOf(record), segment.number)) {
      return false;
    }
    at += static_cast<std::uint32_t>(log_.BytesOf(record));
  }
  return true;
}

}  // namespace tidepool::storage
