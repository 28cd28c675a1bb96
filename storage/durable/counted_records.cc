#include "storage/durable/counted_records.h"

#include <algorithm>

namespace tidepool::storage {

void CountedRecords::Want(const RecoverablePartition& partition) {
  OfPartition& of = Of(partition.id);
  of.wanted = &partition;
  if (partition.options.kind != Kind::kHash) of.newest.KeepKeys();
}

bool CountedRecords::WantsSync() const {
  return std::any_of(partitions_.begin(), partitions_.end(),
                     [](const auto& each) { return each.second.IsSync(); });
}

void CountedRecords::Visit(const ReplayedRecord& record, std::uint64_t number,
                           std::uint64_t location) {
  OfPartition& of = partitions_[record.header.partition];
  if (record.header.type == RecordType::kDrop) {
    of.floor = std::max(of.floor, record.header.lsn);
    return;
  }
  if (number < of.floor) return;
  if (of.wanted == nullptr) {
    of.unwanted_found = true;
    return;
  }
  // The catalog does not know this term: either the catalog or the record is wrong.
  if (Lsn(record.header.lsn).term() > of.wanted->term) {
    of.lost = StatusCode::kDataLoss;
    return;
  }
  of.newest.Add(record, location, false);
}

void CountedRecords::VisitCommitted(const ReplayedRecord& record, std::uint64_t at,
                                    absl::FunctionRef<std::uint64_t(std::uint64_t)> number_of) {
  OfPartition& of = partitions_[record.header.partition];
  // For other partitions only data below the checkpoint counts, drops included.
  if (!of.IsSync()) return;
  if (record.header.type == RecordType::kDrop) {
    of.newest.Drop([&](std::uint64_t location) { return number_of(location) < record.header.lsn; });
    // Otherwise the checkpoint has covered the drop.
    of.dropped_in_ring = of.dropped_in_ring || of.floor < record.header.lsn;
    of.floor_in_ring = std::max(of.floor_in_ring, record.header.lsn);
    return;
  }
  if (Lsn(record.header.lsn).term() > of.wanted->term) {
    of.lost = StatusCode::kDataLoss;
    return;
  }
  of.newest.Add(record, at, true);
}

void CountedRecords::NoteDamaged(std::uint64_t number, StatusCode code) {
  for (auto& [id, of] : partitions_) {
    if (of.wanted != nullptr && number >= std::max(of.floor, of.floor_in_ring)) of.lost = code;
  }
}

void CountedRecords::NoteRingDamaged() {
  for (auto& [id, of] : partitions_) {
    if (of.IsSync()) of.lost = StatusCode::kDataLoss;
  }
}

}  // namespace tidepool::storage
