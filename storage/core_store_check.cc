// CheckInvariants: the ledger against a walk over everything. For tests.
#include <absl/container/flat_hash_map.h>

#include "proto/base/check.h"
#include "proto/base/key_hash.h"
#include "storage/core_store.h"

namespace tidepool::storage {

void CoreStore::CheckInvariants() {
  const std::uint64_t block = memory_.block_bytes();
  std::uint64_t index_bytes = 0;
  absl::flat_hash_map<std::uint32_t, std::uint64_t> live;     // Segment index -> bytes.
  absl::flat_hash_map<std::uint32_t, std::uint64_t> records;  // The same -> records.
  std::vector<std::uint32_t> extents;
  const auto visit_extent = [&](std::uint64_t location) {
    if (!log_.FindExtent(location, extents)) return;
    for (const std::uint32_t each : extents) {
      if (each == 0) continue;  // Lost.
      TP_CHECK(log_.segments()[each].extent);
      TP_CHECK(log_.segments()[each].records == 1);
      ++records[each];
      TP_CHECK(!live.contains(each));  // An extent segment belongs to one record.
      live[each] = log_.segments()[each].live;
      TP_CHECK(live[each] != 0);
    }
  };
  const auto visit_record = [&](const Partition& partition, std::uint64_t location) {
    const std::uint32_t index = log_.segments().IndexOf(location);
    const Segment& segment = log_.segments()[index];
    // An index refers only to published records in segments that are not free.
    TP_CHECK(segment.state == SegmentState::kOpen || segment.state == SegmentState::kSealed ||
             segment.state == SegmentState::kCompacting ||
             segment.state == SegmentState::kWriting || segment.state == SegmentState::kSpilled);
    const bool resident = segment.state != SegmentState::kSpilled;
    TP_CHECK(resident == ((log_.segments().Entry(index).word & kSegmentResident) != 0));
    TP_CHECK(log_.segments().OffsetOf(location) < segment.used);
    ++records[index];
    visit_extent(location);
    if (!resident) return;
    const RecordHeader& record = *log_.At(location);
    TP_CHECK(IsCopy(record) == (segment.stream == Stream::kCache));
    if (IsCopy(record)) {
      const std::uint64_t home = HomeOf(record);
      const std::uint32_t home_index = log_.segments().IndexOf(home);
      TP_CHECK(log_.segments()[home_index].slot != 0);
      ++records[home_index];
      live[home_index] += log_.BytesOf(record);
      const RecordHeader* resident_home = log_.segments().Find(home);
      TP_CHECK(resident_home == nullptr || resident_home->lsn == record.lsn);
    }
    TP_CHECK(record.partition == partition.id().value());
    TP_CHECK(record.sequence % 2 == 0);
    TP_CHECK(record.lsn != 0);
    TP_CHECK(Lsn(record.lsn) <= partition.last_lsn());
    const std::uint64_t expiry_ms = log_.ExpiryOf(record);
    TP_CHECK(expiry_ms == 0 || segment.expiry_min_ms <= expiry_ms || compactor_.IsSweeping(index));
    live[index] += log_.BytesOf(record);
  };
  const auto check_partition = [&](const Partition& partition) {
    const Store& store = partition.store();
    store.CheckInvariants();
    index_bytes += store.index_usage().allocated_bytes;
    store.VisitRecords([&](std::uint64_t location) { visit_record(partition, location); });
  };
  for (const auto& [id, partition] : partitions_) {
    TP_CHECK(partition->id().value() == id);
    check_partition(*partition);
  }
  for (const auto& partition : incoming_) {
    TP_CHECK(partition->guard() == kGuardGone);
    check_partition(*partition);
  }
  for (const auto& partition : dropped_) {
    TP_CHECK(partition->guard() == kGuardGone);
    check_partition(*partition);
  }

  std::uint64_t live_bytes = 0;
  std::uint64_t tombstone_bytes = 0;
  std::uint64_t in_use = 0;
  std::uint64_t resident = 0;
  std::uint64_t spilled_live_bytes = 0;
  std::uint64_t unpublished = 0;
  std::uint64_t slots = checkpointer_ == nullptr ? 0 : checkpointer_->slots_released();
  for (std::uint32_t index = 1; index < log_.segments().end(); ++index) {
    const Segment& segment = log_.segments()[index];
    if (segment.state == SegmentState::kFree) continue;
    ++in_use;
    if (segment.slot != 0) ++slots;
    if (log_.segments().Base(index) != nullptr) ++resident;
    if (segment.state == SegmentState::kSpilled) {
      // An unread record is as good as another: their number is exact, their bytes need not be.
      TP_CHECK(segment.records - segment.tombstone_records == records[index]);
      TP_CHECK(segment.records > 0 || segment.unsound);
      TP_CHECK(segment.live <= segment.used);
      TP_CHECK(segment.slot != 0);
      live_bytes += segment.live;
      spilled_live_bytes += segment.live;
      tombstone_bytes += segment.tombstones;
      continue;
    }
    std::uint64_t tombstones = 0;
    if (!segment.extent && segment.state != SegmentState::kDead) {
      // Walks to the end: sizes agree with `used`.
      std::uint32_t at = sizeof(SegmentHeader);
      std::uint64_t newest = 0;
      for (; at < segment.used;) {
        const RecordHeader& record = *log_.At(log_.segments().LocationOf(index, at));
        TP_CHECK(record.type != RecordType::kEnd);
        newest = std::max(newest, record.lsn);
        const bool is_tombstone =
            record.type == RecordType::kTombstone || record.type == RecordType::kDrop;
        if (is_tombstone) tombstones += log_.BytesOf(record);
        at += static_cast<std::uint32_t>(log_.BytesOf(record));
      }
      TP_CHECK(at == segment.used);
      TP_CHECK(segment.used <= log_.segment_bytes());
    }
    live_bytes += segment.live;
    if (segment.guessed) continue;
    const std::uint64_t indexed = live.contains(index) ? live[index] : 0;
    TP_CHECK(segment.live >= indexed);
    // A live record in no index is a tombstone that is still needed.
    TP_CHECK(segment.live - indexed <= tombstones);
    if (segment.state == SegmentState::kExtent && segment.live == 0) ++unpublished;
    if (segment.extent) continue;
    TP_CHECK(segment.live - indexed == segment.tombstones);
    tombstone_bytes += segment.live - indexed;
  }
  TP_CHECK(in_use == log_.segments().in_use());
  TP_CHECK(resident == log_.segments().resident());
  TP_CHECK(spilled_live_bytes == log_.spilled_live_bytes());
  TP_CHECK(unpublished == log_.unpublished_segments());
  TP_CHECK(live_bytes == log_.live_bytes());
  TP_CHECK(tombstone_bytes == log_.tombstone_bytes());

  // Otherwise other cores have some.
  if (options_.volume != nullptr && options_.volume->layout(0).cores == 1) {
    TP_CHECK(slots + options_.volume->slots_free() == options_.volume->slot_count());
  }

  // The ledger: every block is a segment, a piece of index or tables, or at hand.
  const std::uint64_t accounted = resident + memory_.blocks_chunked() + memory_.blocks_ready() +
                                  (spiller_ == nullptr ? 0 : spiller_->blocks_under_way());
  TP_CHECK(memory_.blocks_held() >= accounted);
  TP_CHECK((memory_.blocks_held() - accounted) * block <= index_bytes);
  TP_CHECK(memory_.chunk_bytes_used() <= memory_.blocks_chunked() * block);
  TP_CHECK(memory_.blocks_held() <= memory_.block_count_max());
}

}  // namespace tidepool::storage
