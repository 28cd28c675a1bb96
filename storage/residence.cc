#include "storage/residence.h"

#include <algorithm>
#include <array>

#include "storage/layout.h"

namespace tidepool::storage {
namespace {

constexpr std::uint64_t kBucketsPerCheck = 16;
constexpr std::uint64_t kItemsPerCheck = 64;
// Items of a priority queue that are passed: some 100 ms of its core, in slices.
constexpr std::uint64_t kItemsPassedMax = 1 << 24;

std::uint64_t Share(std::uint64_t part, std::uint64_t of, std::uint64_t all) {
  if (of == 0) return 0;
  return static_cast<std::uint64_t>(
      static_cast<double>(part) / static_cast<double>(of) * static_cast<double>(all) + 0.5);
}

}  // namespace

Residence Residence::ScaledTo(std::uint64_t records, std::uint64_t payload_bytes) const {
  Residence scaled;
  const std::uint64_t looked = memory_records + device_records;
  scaled.device_records = Share(device_records, looked, records);
  scaled.memory_records = records - scaled.device_records;
  scaled.cached_records = Share(cached_records, looked, records);
  // Where all of it was seen in DRAM, only the rest is a guess.
  scaled.device_bytes = !sampled && looked == records && memory_bytes <= payload_bytes
                            ? payload_bytes - memory_bytes
                            : Share(device_bytes, memory_bytes + device_bytes, payload_bytes);
  if (device_bytes == 0) scaled.device_bytes = 0;
  scaled.memory_bytes = payload_bytes - scaled.device_bytes;
  scaled.sampled = sampled;
  return scaled;
}

void Partition::ResidenceWalk::Begin(std::uint64_t places, std::uint64_t records_per_place) {
  begun_ = true;
  places_ = places;
  wanted_ = std::min(places, std::max<std::uint64_t>(looks_max_ / records_per_place, 1));
  found_.sampled = wanted_ < places_;
}

bool Partition::ResidenceWalk::Slice(Partition& partition, absl::FunctionRef<bool()> done) {
  if (partition.kind() == Kind::kQueue)
    return ArrivalSlice(partition.queue(), partition.log_, done);
  if (partition.kind() == Kind::kPriority) {
    return PrioritySlice(partition.queue(), partition.log_, done);
  }
  return partition.IsOneOf(kRecordKinds) && HashSlice(partition.hash(), partition.log_, done);
}

bool Partition::ResidenceWalk::HashSlice(HashStore& hash, const Log& log,
                                         absl::FunctionRef<bool()> done) {
  const TagIndex& index = hash.index_;
  if (!begun_) {
    const std::uint64_t buckets = index.bucket_count();
    Begin(buckets, std::max<std::uint64_t>(index.size() / buckets, 1));
  }
  while (next_ < wanted_) {
    if (next_ % kBucketsPerCheck == 0 && done()) return true;
    index.VisitChain(NextPlace(), [&](std::uint64_t location) { Look(log, location); });
  }
  // What it has grown by was split off buckets that were passed before.
  if (index.bucket_count() != places_) found_.sampled = true;
  return false;
}

bool Partition::ResidenceWalk::ArrivalSlice(const QueueStore& queue, const Log& log,
                                            absl::FunctionRef<bool()> done) {
  if (!begun_) {
    first_id_ = queue.fresh_.begin();
    Begin(queue.fresh_.end() - first_id_, 1);
  }
  while (next_ < wanted_) {
    if (next_ % kItemsPerCheck == 0 && done()) return true;
    const std::uint64_t* location = queue.fresh_.Find(first_id_ + NextPlace());
    if (location != nullptr) Look(log, *location);
  }
  LookAtDelivered(queue, log);
  return false;
}

bool Partition::ResidenceWalk::PrioritySlice(const QueueStore& queue, const Log& log,
                                             absl::FunctionRef<bool()> done) {
  const TreeIndex& tree = *queue.tree_;
  if (!begun_) {
    Begin(tree.size(), 1);
    found_.sampled = found_.sampled || places_ > kItemsPassedMax;
  }
  const std::uint64_t each = wanted_ == 0 ? 1 : (places_ + wanted_ - 1) / wanted_;
  TreeIndex::Place at = from_.empty() ? tree.First() : tree.LowerBound(from_);
  std::array<TreeIndex::Entry, kItemsPerCheck> items;
  while (at.valid() && next_ < kItemsPassedMax) {
    if (done()) {
      TreeKeyBuffer buffer;
      const Bytes key = tree.KeyOf(at, &buffer);
      from_.assign(key.begin(), key.end());
      return true;
    }
    const std::size_t count = tree.CollectUp(&at, nullptr, items);
    for (std::size_t i = 0; i < count; ++i, ++next_) {
      if (next_ % each == 0) Look(log, items[i].location);
    }
  }
  LookAtDelivered(queue, log);
  return false;
}

// In no order, so the first of them are as good as any: as many as were looked at of the others.
void Partition::ResidenceWalk::LookAtDelivered(const QueueStore& queue, const Log& log) {
  std::uint64_t left = queue.delivered_.size();
  if (found_.sampled) left = std::max<std::uint64_t>(Share(wanted_, places_, left), 1);
  for (const auto& [id, delivered] : queue.delivered_) {
    if (left-- == 0) return;
    Look(log, delivered.location);
  }
}

void Partition::ResidenceWalk::Look(const Log& log, std::uint64_t location) {
  const SegmentTable& segments = log.segments();
  if (segments.Find(location) == nullptr) {
    const Segment& segment = segments[segments.IndexOf(location)];
    const std::uint64_t average = segment.live / std::max(segment.records, 1u);
    ++found_.device_records;
    found_.device_bytes += average - std::min<std::uint64_t>(average, sizeof(RecordHeader));
    if (log.FindExtent(location, segments_)) {
      for (const std::uint32_t index : segments_) found_.device_bytes += segments[index].live;
    }
    return;
  }
  const RecordHeader& record = *segments.At(location);
  const std::uint64_t bytes = std::uint64_t{record.key_bytes} + record.value_bytes;
  std::uint64_t away = 0;
  if (record.type == RecordType::kPutExtent) {
    log.ExtentSegmentsOf(location, record, segments_);
    for (const std::uint32_t index : segments_) {
      if (segments.Base(index) == nullptr) away += segments[index].live;
    }
  }
  ++(away == 0 ? found_.memory_records : found_.device_records);
  found_.cached_records += IsCopy(record) ? 1 : 0;
  found_.device_bytes += std::min(away, bytes);
  found_.memory_bytes += bytes - std::min(away, bytes);
}

}  // namespace tidepool::storage
