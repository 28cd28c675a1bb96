#include "storage/durable/log_check.h"

#include <algorithm>
#include <string>
#include <utility>

#include "storage/device/device_io.h"
#include "storage/durable/ring_replay.h"
#include "storage/durable/segment_reader.h"

namespace tidepool::storage {
namespace {

// Where a record is, as CountedRecords wants it: the number of its segment stands in `numbers`.
std::uint64_t LocationOf(std::size_t index, std::uint32_t offset) {
  return std::uint64_t{index} << 32 | offset;
}

std::uint64_t PayloadBytes(const NewestRecords& newest) {
  std::uint64_t bytes = 0;
  for (const auto& [key, entry] : newest.entries()) {
    if (entry.type == RecordType::kPut) bytes += entry.payload_bytes;
  }
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
    // Whoever has used it last gave no greater ones.
    const std::uint64_t next_max = (volume_.found(0).incarnation + 1) << 32;
    auto marks =
        ReadMarks(queues_[0].get(), volume_.layout(0), core_, volume_.found(0).volume, next_max);
    if (!marks.ok()) return marks.status();
    check_.marks = *std::move(marks);
    CheckSegments();
    TP_RETURN_IF_ERROR(CheckRing());
    for (const RecoverablePartition& partition : wanted) {
      const CountedRecords::OfPartition& of = records_.Of(partition.id);
      const bool is_unknown = !check_.marks.newest.has_value() && check_.marks.unsound > 0;
      check_.partitions.push_back({partition.id, of.newest.puts(), PayloadBytes(of.newest),
                                   of.newest.last_lsn(),
                                   is_unknown ? StatusCode::kDataLoss : of.lost});
    }
    return std::move(check_);
  }

 private:
  void CheckSegments() {
    const std::optional<Mark>& mark = check_.marks.newest;
    std::vector<FoundSegment> counted;
    for (const FoundSegment& found : volume_.TakeFoundSegments(core_)) {
      const auto standing =
          mark.has_value() ? mark->StandingOf(found.number) : Mark::Standing::kBefore;
      if (standing == Mark::Standing::kCounts) {
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
    for (const CheckedSegment& each : check_.segments) {
      if (!each.status.ok()) records_.NoteDamaged(each.found.number, each.status.code());
    }
    std::sort(check_.segments.begin(), check_.segments.end(),
              [](const auto& a, const auto& b) { return a.found.number < b.found.number; });
  }

  CheckedSegment CheckSegment(const FoundSegment& found, const Status& read, Bytes image) {
    CheckedSegment checked{found, Mark::Standing::kCounts, 0, 0, read};
    check_.bytes_read += image.size();
    if (!read.ok()) return checked;
    checked.used = ReplaySegment({image, found.number, check_.marks.newest->EndOf(found.number)},
                                 [&](const ReplayedRecord& record) {
                                   ++checked.records;
                                   visit_(&found, record);
                                   records_.Visit(record, found.number,
                                                  LocationOf(numbers_.size(), record.offset));
                                 });
    records_.AddVisited();
    numbers_.push_back(found.number);
    if (checked.used == 0) {
      checked.status =
          Status(StatusCode::kDataLoss,
                 "it is damaged behind " + std::to_string(checked.records) + " records");
    }
    return checked;
  }

  Status CheckRing() {
    if (!check_.marks.newest.has_value() || !records_.WantsSync()) return OkStatus();
    const DeviceLayout& layout = volume_.layout(0);
    BlockBuffer ring(layout.ring_bytes);
    TP_RETURN_IF_ERROR(
        ReadBlocks(queues_[0].get(), layout.RingOffset(core_.value()), ring.bytes()));
    check_.bytes_read += ring.size();
    const RingReplay replay = ReplayRing(
        std::as_const(ring).bytes(), *check_.marks.newest,
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

  Volume& volume_;
  const CoreId core_;
  const CheckVisit visit_;
  DeviceQueues queues_;
  CountedRecords records_;
  std::vector<std::uint64_t> numbers_;  // Of the segments that were read, in that order.
  CoreCheck check_;
};

}  // namespace

Result<CoreCheck> CheckCore(Volume* volume, CoreId core,
                            std::span<const RecoverablePartition> wanted, CheckVisit visit) {
  return CoreChecker(volume, core, visit).Run(wanted);
}

}  // namespace tidepool::storage
