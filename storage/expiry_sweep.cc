// Removes expired records that are never read. Each segment knows the earliest expiry in it, so
// only segments with something to remove are walked; a namespace's default time to live makes whole
// segments expire together.
#include <algorithm>

#include "proto/base/check.h"
#include "storage/compactor.h"

namespace tidepool::storage {
namespace {

constexpr std::uint64_t kSweepPauseNs = 1'000'000'000;
constexpr std::uint64_t kSweepShare = 16;  // At most a 17th of the core's time.

}  // namespace

bool Compactor::SweepSlice(const Clock& clock, absl::FunctionRef<bool()> done) {
  SegmentTable& segments = log_.segments();
  if (!sweeping_) {
    const std::uint64_t now_ms = finder_.NowMs();
    if (log_.next_expiry_ms() > now_ms || clock.MonotonicNs() < sweep_not_before_ns_) return false;
    sweeping_ = true;
    sweep_segment_ = 1;
    sweep_at_ = 0;
    sweep_until_ms_ = now_ms;
    sweep_began_ns_ = clock.MonotonicNs();
    // Later appends record their own expiry; the round adds the expiry of the rest.
    log_.set_next_expiry_ms(kNeverMs);
  }
  for (; sweep_segment_ < segments.end(); ++sweep_segment_, sweep_at_ = 0) {
    if (done()) return true;
    Segment& segment = segments[sweep_segment_];
    if (sweep_at_ != 0 && segment.number != sweep_number_) sweep_at_ = 0;  // Reused meanwhile.
    const bool has_records =
        segment.state == SegmentState::kOpen || segment.state == SegmentState::kSealed;
    if (!has_records && segment.state != SegmentState::kCompacting) {
      // Frozen in the middle of its walk: what is left of it has not been looked at.
      if (sweep_at_ != 0) {
        segment.expiry_min_ms = std::min({segment.expiry_min_ms, sweep_min_ms_, sweep_until_ms_});
      }
      continue;
    }
    if (sweep_at_ == 0) {
      // A victim of compaction loses its expired records there.
      if (segment.expiry_min_ms > sweep_until_ms_ || !has_records) {
        log_.set_next_expiry_ms(std::min(log_.next_expiry_ms(), segment.expiry_min_ms));
        continue;
      }
      sweep_at_ = sizeof(SegmentHeader);
      sweep_number_ = segment.number;
      sweep_min_ms_ = kNeverMs;
      segment.expiry_min_ms = kNeverMs;  // Rises again by what is appended or changed meanwhile.
    }
    while (sweep_at_ < segment.used) {
      if (done()) return true;
      const std::uint64_t location = segments.LocationOf(sweep_segment_, sweep_at_);
      const RecordHeader& record = *log_.At(location);
      sweep_at_ += static_cast<std::uint32_t>(log_.BytesOf(record));
      const std::uint64_t expiry_ms = log_.ExpiryOf(record);
      if (expiry_ms == 0) continue;
      if (expiry_ms > sweep_until_ms_) {
        sweep_min_ms_ = std::min(sweep_min_ms_, expiry_ms);
        continue;
      }
      std::uint64_t* slot = nullptr;
      bool dropped = false;
      Partition* partition = finder_.FindHolder(record, location, &slot, &dropped);
      if (partition == nullptr || dropped) continue;
      // A tombstone must not reclaim: key and segment would move away from under the sweep.
      const ReclaimingScope scope(log_);
      if (!RemoveExpired(*partition, record)) {
        sweep_min_ms_ = std::min(sweep_min_ms_, expiry_ms);  // No memory for its tombstone: later.
      }
    }
    segment.expiry_min_ms = std::min(segment.expiry_min_ms, sweep_min_ms_);
    log_.set_next_expiry_ms(std::min(log_.next_expiry_ms(), segment.expiry_min_ms));
  }
  sweeping_ = false;
  const std::uint64_t now_ns = clock.MonotonicNs();
  sweep_not_before_ns_ = now_ns + std::max(kSweepPauseNs, kSweepShare * (now_ns - sweep_began_ns_));
  return false;
}

}  // namespace tidepool::storage
