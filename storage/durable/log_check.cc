#include "storage/durable/log_check.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "storage/device/device_io.h"
#include "storage/durable/checkpoint_traces.h"
#include "storage/durable/footer.h"
#include "storage/durable/ring_replay.h"
#include "storage/durable/segment_reader.h"
#include "storage/nvm/record_check.h"

namespace tidepool::storage {
namespace {

// Where a record is, as CountedRecords wants it: the number of its segment stands in `numbers`.
std::uint64_t LocationOf(std::size_t index, std::uint32_t offset) {
  return std::uint64_t{index} << 32 | offset;
}

std::uint64_t PayloadBytes(const NewestRecords& newest) {
  std::uint64_t bytes = 0;
  newest.ForEach([&](const NewestRecords::Entry& entry) {
    if (entry.is_put()) bytes += entry.payload_bytes;
    return true;
  });
  return bytes;
}

class CoreChecker {
 public:
  CoreChecker(Volume* volume, CoreId core, CheckVisit visit)
      : volume_(*volume), core_(core), visit_(visit) {}

  Result<CoreCheck> Run(std::span<const RecoverablePartition> wanted) {
    for (const RecoverablePartition& partition : wanted) records_.Want(partition);
    auto queues = volume_.OpenQueues(SegmentReader::kAhead);
    if (!queues.ok()) return queues.status();
    queues_ = *std::move(queues);
    // Bound: the last user of the volume gave no greater numbers.
    const std::uint64_t next_max = (volume_.found(0).incarnation + 1) << 32;
    auto checkpoints = ReadCheckpoints(queues_[0].get(), volume_.layout(0), core_,
                                       volume_.found(0).volume, next_max);
    if (!checkpoints.ok()) return checkpoints.status();
    check_.checkpoints = *std::move(checkpoints);
    TP_RETURN_IF_ERROR(CheckSegments());
    TP_RETURN_IF_ERROR(CheckRing());
    NoteLosses();
    for (const RecoverablePartition& partition : wanted) {
      records_.Of(partition.id).newest.Settle();
    }
    CheckExtents(wanted);
    std::sort(check_.segments.begin(), check_.segments.end(),
              [](const auto& a, const auto& b) { return a.found.number < b.found.number; });
    for (const RecoverablePartition& partition : wanted) {
      const CountedRecords::OfPartition& of = records_.Of(partition.id);
      const bool is_unknown =
          !check_.checkpoints.newest.has_value() && check_.checkpoints.unsound > 0;
      const std::uint64_t lost_values = LostValues(of.newest);
      // A filter without some of its bits errs where it must not.
      const bool is_useless = partition.options.kind == Kind::kBloom && lost_values > 0;
      check_.partitions.push_back({partition.id, of.newest.puts(), PayloadBytes(of.newest),
                                   lost_values, of.newest.last_lsn(),
                                   is_unknown || is_useless ? StatusCode::kDataLoss : of.lost});
    }
    return std::move(check_);
  }

 private:
  Status CheckSegments() {
    const std::optional<Checkpoint>& checkpoint = check_.checkpoints.newest;
    std::vector<FoundSegment> counted;
    for (const FoundSegment& found : volume_.TakeFoundSegments(core_)) {
      const auto standing = checkpoint.has_value() ? checkpoint->StandingOf(found.number)
                                                   : Checkpoint::Standing::kBefore;
      if (standing == Checkpoint::Standing::kCounts && found.kind == SegmentKind::kExtent) {
        extents_.emplace(found.number, Extent{found, 0, false});
      } else if (standing == Checkpoint::Standing::kCounts) {
        counted.push_back(found);
      } else {
        check_.segments.push_back({found, standing, 0, 0, OkStatus()});
      }
    }
    std::sort(counted.begin(), counted.end(),
              [](const FoundSegment& a, const FoundSegment& b) { return a.number > b.number; });
    SegmentReader reader(volume_, queues_, counted);
    for (const FoundSegment& found : counted) {
      Bytes image;
      const Status read = reader.Next(&image);
      check_.segments.push_back(CheckSegment(found, read, image));
    }
    return FindLosses(counted);
  }

  Status FindLosses(std::span<const FoundSegment> counted) {
    const std::optional<Checkpoint>& checkpoint = check_.checkpoints.newest;
    if (!checkpoint.has_value()) return OkStatus();
    check_.has_all_segments = checkpoint->HasAll(counted);
    check_.lost_below = check_.has_all_segments ? checkpoint->lost_below : checkpoint->next;
    if (check_.checkpoints.unsound == 0 || volume_.device(0).medium() == DeviceMedium::kDax) {
      return OkStatus();
    }
    const auto behind = HasRecordsBehind(volume_, queues_, *checkpoint, counted);
    if (!behind.ok()) return behind.status();
    const bool has_beyond = std::any_of(
        check_.segments.begin(), check_.segments.end(),
        [](const auto& each) { return each.standing == Checkpoint::Standing::kBeyond; });
    if (has_beyond || *behind) check_.lost_below = checkpoint->next;
    return OkStatus();
  }

  // Records losses as recovery does.
  void NoteLosses() {
    if (check_.lost_below != 0) {
      records_.NoteDamaged(check_.lost_below - 1, StatusCode::kDataLoss);
    }
    for (const std::size_t each : unreplayed_) {
      const CheckedSegment& segment = check_.segments[each];
      records_.NoteDamaged(segment.found.number, segment.status.code());
    }
  }

  CheckedSegment CheckSegment(const FoundSegment& found, const Status& read, Bytes image) {
    CheckedSegment checked{found, Checkpoint::Standing::kCounts, 0, 0, read};
    check_.bytes_read += image.size();
    const std::uint32_t end = check_.checkpoints.newest->EndOf(found.number);
    std::optional<Footer> footer;
    if (read.ok()) {
      if (end == 0) footer = Footer::Open(image, found.number);
      std::optional<Footer::Cursor> told;
      if (footer.has_value()) told.emplace(*footer);
      std::uint32_t next = 0;
      bool is_told = true;  // By the footer, all that was found.
      checked.used = ReplaySegment({image, found.number, end}, [&](const ReplayedRecord& record) {
        ReplayedRecord entry;
        is_told = is_told && told.has_value() && told->Next(&entry) && Same(record, entry);
        ++next;
        visit_(&found, record);
        if (!footer.has_value()) Count(record, found);
      });
      checked.records = next;
      if (footer.has_value() && (!is_told || (checked.used != 0 && next != footer->entries()))) {
        checked.status = Status(StatusCode::kDataLoss, "its footer does not tell what it has");
      }
      if (footer.has_value()) {
        CheckEntries(found, image, *footer, &checked);
      } else if (end == 0 && checked.used != 0 && HasDamagedFooter(image, found.number)) {
        checked.status =
            Status(StatusCode::kDataLoss, "its footer is damaged, and its records are whole");
      }
    }
    numbers_.push_back(found.number);
    if (checked.used == 0 && !footer.has_value()) {
      unreplayed_.push_back(check_.segments.size());
      if (checked.status.ok()) {
        checked.status =
            Status(StatusCode::kDataLoss,
                   "it is damaged behind " + std::to_string(checked.records) + " records");
      }
    }
    if (footer.has_value()) checked.used = footer->used();
    return checked;
  }

  // A segment that recovery has cut at a checkpoint has no footer.
  static bool HasDamagedFooter(Bytes image, std::uint64_t number) {
    const Bytes trailer = image.last(kFooterTrailerBytes);
    return !std::all_of(trailer.begin(), trailer.end(), [](std::byte each) {
      return each == std::byte{0};
    }) && !Footer::Open(image, number).has_value();
  }

  static bool Same(const ReplayedRecord& record, const ReplayedRecord& entry) {
    const bool is_told_bytes = record.header.type != RecordType::kPutExtent;
    const bool is_keyed = (entry.header.flags & kRecordKeyed) != 0;
    return record.offset == entry.offset && (record.bytes == entry.bytes || !is_told_bytes) &&
           (AsText(record.key) == AsText(entry.key) || !is_keyed) &&
           record.identity == entry.identity && record.payload_bytes == entry.payload_bytes &&
           record.header.lsn == entry.header.lsn && record.header.type == entry.header.type &&
           record.header.flags == entry.header.flags &&
           record.header.partition == entry.header.partition;
  }

  // Counts the entries, and finds records that cannot be read.
  void CheckEntries(const FoundSegment& found, Bytes image, const Footer& footer,
                    CheckedSegment* checked) {
    std::uint64_t damaged = 0;
    Footer::Cursor cursor(footer);
    for (ReplayedRecord entry; cursor.Next(&entry);) {
      Count(Footer::Complete(entry, {image, found.number}), found);
      if (ReplayRecord({image, found.number}, entry.offset).has_value()) continue;
      ++damaged;
      damaged_.insert(LocationOf(numbers_.size(), entry.offset));
    }
    if (damaged == 0) return;
    checked->status =
        Status(StatusCode::kDataLoss, std::to_string(damaged) + " of its records are damaged");
  }

  void Count(const ReplayedRecord& record, const FoundSegment& found) {
    records_.Visit(record, found.number, LocationOf(numbers_.size(), record.offset));
  }

  Status CheckRing() {
    if (!check_.checkpoints.newest.has_value() || !records_.WantsSync()) return OkStatus();
    const DeviceLayout& layout = volume_.layout(0);
    BlockBuffer ring(layout.ring_bytes);
    TP_RETURN_IF_ERROR(
        ReadBlocks(queues_[0].get(), layout.RingOffset(core_.value()), ring.bytes()));
    check_.bytes_read += ring.size();
    const RingReplay replay = ReplayRing(
        std::as_const(ring).bytes(), *check_.checkpoints.newest,
        [&](const ReplayedRecord& record, std::uint64_t at) {
          ++check_.changes;
          visit_(nullptr, record);
          records_.VisitCommitted(record, at,
                                  [&](std::uint64_t location) { return numbers_[location >> 32]; });
        });
    check_.commits = replay.commits;
    if (!replay.is_damaged) return OkStatus();
    check_.damaged_commit = replay.end.commit;
    records_.NoteRingDamaged();
    return OkStatus();
  }

  // Calls `visit` for each segment that a large value which counts is to have, with how much of it.
  template <typename Visit>
  void VisitLinks(const NewestRecords::Entry& entry, Visit&& visit) const {
    const std::uint64_t segment_bytes = volume_.slot_bytes();
    const std::uint64_t capacity = ExtentSegmentCapacity(segment_bytes);
    const ExtentShape shape = ShapeOfExtent(entry.extent_bytes, segment_bytes);
    std::uint64_t left = entry.extent_bytes;
    for (std::uint64_t i = 0; i < shape.segments; ++i) {
      const std::uint64_t held = std::min(left, capacity);
      left -= held;
      visit(LoadExtentLink(entry.links() + i * kExtentLinkBytes).number,
            static_cast<std::uint32_t>(kExtentHeaderBytes + held));
    }
  }

  void CheckExtents(std::span<const RecoverablePartition> wanted) {
    for (const RecoverablePartition& partition : wanted) {
      records_.Of(partition.id).newest.ForEach([&](const NewestRecords::Entry& entry) {
        if (entry.type != RecordType::kPutExtent) return true;
        VisitLinks(entry, [&](std::uint64_t number, std::uint32_t used) {
          const auto found = extents_.find(number);
          if (found != extents_.end()) found->second.used = used;
        });
        return true;
      });
    }
    std::vector<FoundSegment> linked;
    for (const auto& [number, extent] : extents_) {
      if (extent.used != 0) {
        linked.push_back(extent.found);
      } else {  // The value was not marked any more, or is gone.
        check_.segments.push_back({extent.found, Checkpoint::Standing::kBefore, 0, 0, OkStatus()});
      }
    }
    SegmentReader reader(volume_, queues_, linked);
    for (const FoundSegment& found : linked) {
      Bytes image;
      Status read = reader.Next(&image);
      check_.bytes_read += image.size();
      Extent& extent = extents_.at(found.number);
      extent.is_sound = read.ok() && IsSoundExtent(image.data(), found.number, extent.used);
      if (read.ok() && !extent.is_sound) read = Status(StatusCode::kDataLoss, "it is damaged");
      check_.segments.push_back(
          {found, Checkpoint::Standing::kCounts, extent.used, 0, std::move(read)});
    }
  }

  std::uint64_t LostValues(const NewestRecords& newest) const {
    std::uint64_t lost = 0;
    newest.ForEach([&](const NewestRecords::Entry& entry) {
      if (!entry.is_put()) return true;
      bool is_sound = entry.in_ring || !damaged_.contains(entry.location);
      VisitLinks(entry, [&](std::uint64_t number, std::uint32_t /*used*/) {
        const auto found = extents_.find(number);
        is_sound = is_sound && found != extents_.end() && found->second.is_sound;
      });
      if (!is_sound) ++lost;
      return true;
    });
    return lost;
  }

  struct Extent {
    FoundSegment found;
    std::uint32_t used = 0;  // 0: no record that counts names it.
    bool is_sound = false;
  };

  Volume& volume_;
  const CoreId core_;
  const CheckVisit visit_;
  DeviceQueues queues_;
  CountedRecords records_;
  absl::flat_hash_map<std::uint64_t, Extent> extents_;  // Extent segments that may count.
  std::vector<std::size_t> unreplayed_;         // Indexes in check_.segments; not known whole.
  absl::flat_hash_set<std::uint64_t> damaged_;  // Locations of records.
  std::vector<std::uint64_t> numbers_;          // Segments that were read, in order.
  CoreCheck check_;
};

}  // namespace

Result<CoreCheck> CheckCore(Volume* volume, CoreId core,
                            std::span<const RecoverablePartition> wanted, CheckVisit visit) {
  return CoreChecker(volume, core, visit).Run(wanted);
}

}  // namespace tidepool::storage
