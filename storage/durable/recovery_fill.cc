// Recovery: builds partitions and their indexes from the records that count.
#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "proto/base/check.h"
#include "proto/base/log.h"
#include "storage/core_store.h"
#include "storage/durable/recovery.h"

namespace tidepool::storage {
namespace {

bool IsItemKey(Bytes key) { return key.size() == 8 || key.size() == 16; }

}  // namespace

Status Recovery::Fill(std::span<const RecoverablePartition> partitions) {
  if (const std::uint64_t below = core_.log_.lost_below(); below != 0) {
    records_.NoteDamaged(below - 1, StatusCode::kDataLoss);
  }
  for (const Damaged& damaged : damaged_) records_.NoteDamaged(damaged.number, damaged.code);
  for (const RecoverablePartition& wanted : partitions) {
    CountedRecords::OfPartition& of = records_.Of(wanted.id);
    of.newest.Settle();
    const auto added = core_.AddFilled(wanted, of.newest.puts());
    if (!added.ok()) return added.status();
    Partition& partition = **added;
    // Before changes of its successor in the ring go to the log.
    if (of.dropped_in_ring) core_.NoteDrop(wanted.id);
    if (!FillOne(partition, of.newest)) {
      return Status(StatusCode::kResourceExhausted,
                    "no memory for what partition " + std::to_string(wanted.id.value()) +
                        " has left on the device",
                    "start with at least the --memory of the last time");
    }
    partition.RaiseLsn(of.newest.last_lsn());
    report_.partitions.push_back({wanted.id, of.newest.puts(), partition.last_lsn(), of.lost});
    of.newest = {};
  }
  return OkStatus();
}

// False: no memory.
bool Recovery::FillOne(Partition& partition, const NewestRecords& newest) {
  // Nothing may be compacted before all of it is known.
  const ReclaimingScope scope(core_.log_);
  if (partition.IsOneOf(kItemKinds)) return FillItems(partition, newest);
  if (partition.kind() == Kind::kBloom) return FillFilter(partition, newest);
  if (partition.kind() == Kind::kOrdered) return FillInOrder(partition, newest);
  return newest.ForEach(
      [&](const NewestRecords::Entry& entry) { return FillRecord(partition, entry); });
}

// Returns the final location: a change only in the ring goes to the log. 0: no memory.
std::uint64_t Recovery::Settle(PartitionId id, const NewestRecords::Entry& entry) {
  if (entry.in_ring) return AppendCommitted(id, entry);
  core_.log_.AdoptRecord({entry.location, entry.expiry_ms, entry.bytes, false});
  if (entry.type == RecordType::kPutExtent && !SettleExtent(id, entry)) return 0;
  return entry.location;
}

// Adopts the value's segments. If a segment is missing, the key is unreadable, rather than absent
// or an older value. False: no memory.
bool Recovery::SettleExtent(PartitionId id, const NewestRecords::Entry& entry) {
  std::vector<std::uint32_t> segments(
      ShapeOfExtent(entry.extent_bytes, core_.log_.segment_bytes()).segments);
  const std::byte* link = entry.links();
  for (std::uint32_t& segment : segments) {
    const std::uint64_t number = LoadExtentLink(link).number;
    link += kExtentLinkBytes;
    const auto found = extents_.find(number);
    if (found == extents_.end()) {
      log::Error("a large value of partition " + std::to_string(id.value()) +
                 " is lost: its segment (number " + std::to_string(number) +
                 ") is not on the device; its key answers so until it is put or deleted");
      continue;
    }
    segment = core_.log_.AdoptSegment(number, static_cast<Stream>(found->second.stream),
                                      static_cast<std::uint32_t>(found->second.slot));
    if (segment == 0) return false;
    extents_.erase(found);
  }
  core_.log_.AdoptExtentOf(entry.location, std::move(segments), entry.extent_bytes);
  return true;
}

bool Recovery::FillRecord(Partition& partition, const NewestRecords::Entry& entry) {
  if (!entry.is_put()) return SettleTombstone(partition.id(), entry);
  const std::uint64_t location = Settle(partition.id(), entry);
  return location != 0 && partition.hash().Adopt({.hash = entry.hash,
                                                  .location = location,
                                                  .payload_bytes = entry.payload_bytes,
                                                  .key = entry.key(),
                                                  .expires = entry.expiry_ms != 0});
}

// Tombstones in segments were adopted when they were visited.
bool Recovery::SettleTombstone(PartitionId id, const NewestRecords::Entry& entry) {
  return entry.type != RecordType::kTombstone || !entry.in_ring || AppendCommitted(id, entry) != 0;
}

// Fills the tree in key order, which costs a third of a random order.
bool Recovery::FillInOrder(Partition& partition, const NewestRecords& newest) {
  std::vector<NewestRecords::Entry> puts;
  puts.reserve(newest.puts());
  const bool filled = newest.ForEach([&](const NewestRecords::Entry& entry) {
    if (!entry.is_put()) return SettleTombstone(partition.id(), entry);
    puts.push_back(entry);
    return true;
  });
  std::sort(puts.begin(), puts.end(),
            [](const auto& a, const auto& b) { return AsText(a.key()) < AsText(b.key()); });
  return filled && std::all_of(puts.begin(), puts.end(), [&](const NewestRecords::Entry& entry) {
           return FillRecord(partition, entry);
         });
}

bool Recovery::FillItems(Partition& partition, const NewestRecords& newest) {
  std::vector<NewestRecords::Entry> items;
  items.reserve(newest.puts());
  absl::flat_hash_map<KeyIdentity, NewestRecords::Entry> notes;
  const bool settled = newest.ForEach([&](const NewestRecords::Entry& entry) {
    if (entry.is_put() && IsItemKey(entry.key())) {
      items.push_back(entry);
    } else if (entry.type == RecordType::kLease) {
      notes.emplace(KeyIdentity{entry.hash, entry.second}, entry);
    } else {
      return SettleTombstone(partition.id(), entry);
    }
    return true;
  });
  if (!settled) return false;
  std::sort(items.begin(), items.end(),
            [](const auto& a, const auto& b) { return AsText(a.key()) < AsText(b.key()); });
  const std::uint64_t now_ms = core_.NowMs();
  for (const NewestRecords::Entry& item : items) {
    QueueStore::AdoptedItem adopted;
    adopted.key = ItemKey::Of(item.key());
    adopted.value_bytes = item.payload_bytes - adopted.key.size;
    adopted.expires = item.expiry_ms != 0;
    adopted.location = Settle(partition.id(), item);
    if (adopted.location == 0) return false;
    const auto found = notes.find(IdentityOf(item.key(), RecordType::kLease));
    if (found != notes.end() && found->second.key_bytes == sizeof(LeaseNote)) {
      adopted.note = LoadUnaligned<LeaseNote>(found->second.kept);
      adopted.note_location = Settle(partition.id(), found->second);
      if (adopted.note_location == 0) return false;
    }
    if (!partition.queue().Adopt(adopted, now_ms)) return false;
  }
  return true;
}

// Reads a whole filter: its bits are in DRAM. A filter without some bits would deny keys that were
// inserted.
bool Recovery::FillFilter(Partition& partition, const NewestRecords& newest) {
  std::vector<NewestRecords::Entry> pieces;
  pieces.reserve(newest.puts());
  newest.ForEach([&](const NewestRecords::Entry& entry) {
    if (entry.is_put()) pieces.push_back(entry);
    return true;
  });
  std::sort(pieces.begin(), pieces.end(),
            [](const auto& a, const auto& b) { return a.location < b.location; });
  const Volume& volume = *core_.options_.volume;
  const SegmentTable& segments = core_.log_.segments();
  BlockBuffer image(volume.slot_bytes());
  std::uint32_t read = 0;  // The segment that lies there.
  for (const NewestRecords::Entry& piece : pieces) {
    const std::uint64_t location = Settle(partition.id(), piece);
    const std::uint32_t index = segments.IndexOf(location);
    const Segment& segment = segments[index];
    const SlotPlace place = volume.Place(segment.slot - 1);
    if (index != read) {
      const Status status = ReadBlocks(queues_[place.device].get(), place.offset, image.bytes());
      read = status.ok() ? index : 0;
      report_.bytes_read += image.size();
    }
    const SegmentImage found{image.bytes(), segment.number};
    const auto offset = static_cast<std::uint32_t>(segments.OffsetOf(location));
    const auto record = read == index ? ReplayRecord(found, offset) : std::nullopt;
    const bool is_sound = record.has_value() && record->header.lsn == piece.lsn;
    if (!partition.bloom().Adopt(piece.key(), location, is_sound ? record->value : Bytes{})) {
      core_.log_.Kill(location);
      continue;
    }
    if (is_sound) continue;
    log::Error("a piece of the filter of partition " + std::to_string(partition.id().value()) +
               " cannot be read");
    records_.Of(partition.id()).lost = StatusCode::kDataLoss;
  }
  return true;
}

}  // namespace tidepool::storage
