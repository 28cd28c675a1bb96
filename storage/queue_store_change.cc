// Changes of a queue's indexes and its log, and the interface for the core's machinery.
#include <algorithm>
#include <unordered_set>

#include "proto/base/check.h"
#include "storage/partition.h"
#include "storage/queue_store.h"

namespace tidepool::storage {
namespace {

// Of a note in the log, at most.
constexpr std::uint64_t kNoteRecordBytes =
    RecordBytes(sizeof(ItemKey::bytes), sizeof(LeaseNote), 0);

}  // namespace

Lsn QueueStore::Apply(const LogRecord& record) {
  if (record.type == LogRecordType::kExpire) {
    // Its consumer may still ack it; else it is met again when the lease has ended.
    const auto found = delivered_.find(ItemKey::Of(record.key).id());
    if (found != delivered_.end() && found->second.leased()) return {};
  }
  if (record.type == LogRecordType::kDelete || record.type == LogRecordType::kExpire) {
    // What was never delivered is counted by its record.
    const ItemKey key = ItemKey::Of(record.key);
    const std::uint64_t location = delivered_.contains(key.id()) ? 0 : Locate(key);
    if (location != 0 && log_.Look(location) == nullptr) return {};
  }
  for (;;) {
    const Room room = MakeRoom(record);
    if (room == Room::kNone) return {};
    if (room == Room::kMoved) continue;
    LogRecord change = record;
    return ApplyRoomed(change);
  }
}

bool QueueStore::MakeIndexRoom(const LogRecord& change) {
  if (by_priority()) return tree_->MakeRoom(change.key);
  return fresh_.MakeRoom(ItemKey::Of(change.key).id());
}

Room QueueStore::MakeRoom(const LogRecord& change) {
  switch (change.type) {
    case LogRecordType::kPut:
      if (!MakeIndexRoom(change)) {
        // Compaction may give back a block that the index can take.
        if (log_.reclaiming()) return Room::kNone;
        return log_.Reclaim() && MakeIndexRoom(change) ? Room::kMoved : Room::kNone;
      }
      return MakeRecordRoom(change);
    case LogRecordType::kDelete:
    case LogRecordType::kExpire:
      if (!partition_.options().tombstones || !HasKey(change.key)) return Room::kReady;
      return log_.MakeRoom(stream_, log_.BytesFor(change), MemoryClass::kReserve);
    case LogRecordType::kLease:
      if (!is_durable_) break;  // On the heap.
      // On a full store a queue is still emptied under leases.
      return log_.MakeRoom(stream_, log_.BytesFor(change), MemoryClass::kReserve);
    case LogRecordType::kRelease:
      if (!is_durable_) break;
      if (log_.MakeRoom(stream_, kNoteRecordBytes, MemoryClass::kReserve) == Room::kMoved) {
        return Room::kMoved;
      }
      break;  // Room or not.
  }
  return Room::kReady;
}

Lsn QueueStore::ApplyRoomed(LogRecord& change) {
  partition_.Stamp(change);
  LeaseNote released;
  switch (change.type) {
    case LogRecordType::kPut:
      ApplyPush(change);
      break;
    case LogRecordType::kDelete:
    case LogRecordType::kExpire:
      ApplyRemoval(change);
      break;
    case LogRecordType::kLease:
      ApplyLease(change);
      break;
    case LogRecordType::kRelease:
      released = NoteReleased(ItemKey::Of(change.key).id());
      change.value = std::as_bytes(std::span(&released, 1));
      change.value_bytes = change.value.size();
      if (is_durable_ && !log_.HasRoom(stream_, log_.BytesFor(change))) ++releases_left_out_;
      ApplyRelease(change);
      break;
  }
  partition_.Publish(change);
  return change.lsn;
}

void QueueStore::ApplyPush(const LogRecord& change) {
  const std::uint64_t id = ItemKey::Of(change.key).id();
  TP_CHECK(id >= next_id_);
  next_id_ = id + 1;
  const std::uint64_t location = AppendRecord(change);
  if (by_priority()) {
    tree_->Insert(change.key, location, false);
  } else {
    fresh_.Append(id, location);
  }
}

Room QueueStore::MakeRecordRoom(const LogRecord& change) {
  if (is_durable_ && !log_.MakeExtentDurable(change.extent_segments)) return Room::kNone;
  return log_.MakeRoom(stream_, log_.BytesFor(change), MemoryClass::kUser);
}

// Room must have been made.
std::uint64_t QueueStore::AppendRecord(const LogRecord& change) {
  payload_bytes_ += change.key.size() + change.value_bytes;
  const bool extent = !change.extent_segments.empty();
  const std::uint64_t location =
      log_.Append(stream_, change, extent ? RecordType::kPutExtent : RecordType::kPut, change.lsn);
  if (extent) log_.AdoptExtent(change.extent_segments, change.value_bytes, stream_);
  return location;
}

void QueueStore::ApplyRemoval(const LogRecord& change) {
  const ItemKey key = ItemKey::Of(change.key);
  if (Locate(key) == 0) return;
  if (partition_.options().tombstones) {
    log_.Append(stream_, change, RecordType::kTombstone, change.lsn);
  }
  Remove(key);
}

// What the log has of a lease, for which room was made; 0: it has nothing. What it had before
// counts no more.
std::uint64_t QueueStore::AppendNote(const LogRecord& change, std::uint64_t before) {
  if (!is_durable_ || !log_.HasRoom(stream_, log_.BytesFor(change))) return before;
  if (before != 0) log_.Kill(before);
  return log_.Append(stream_, change, RecordType::kLease, change.lsn);
}

void QueueStore::ApplyLease(const LogRecord& change) {
  const ItemKey key = ItemKey::Of(change.key);
  const std::uint64_t location = Locate(key);
  if (location == 0) return;
  TP_CHECK(change.value.size() == sizeof(LeaseNote));
  const auto note = LoadUnaligned<LeaseNote>(change.value.data());
  TP_CHECK(note.deadline_ms != 0);
  Delivered& delivered = delivered_[key.id()];
  TP_CHECK(!delivered.leased());
  TP_CHECK(note.deliveries > delivered.deliveries);
  if (delivered.deliveries != 0) {
    TP_CHECK(returned_.erase({key.priority(), key.id()}) == 1);
  } else {
    EraseFresh(key);
  }
  delivered = {.location = location,
               .priority = key.priority(),
               .value_bytes = note.value_bytes,
               .deliveries = note.deliveries,
               .deadline_ms = note.deadline_ms,
               .consumer = note.consumer,
               .note = AppendNote(change, delivered.note),
               .visibility_ms = note.visibility_ms};
  deadlines_.emplace(note.deadline_ms, key.id());
}

LeaseNote QueueStore::NoteReleased(std::uint64_t id) const {
  const auto found = delivered_.find(id);
  if (found == delivered_.end()) return {};
  const Delivered& delivered = found->second;
  return {0, delivered.visibility_ms, 0, delivered.deliveries, delivered.value_bytes};
}

void QueueStore::ApplyRelease(const LogRecord& change) {
  const ItemKey key = ItemKey::Of(change.key);
  const auto found = delivered_.find(key.id());
  if (found == delivered_.end() || !found->second.leased()) return;
  Delivered& delivered = found->second;
  TP_CHECK(deadlines_.erase({delivered.deadline_ms, key.id()}) == 1);
  delivered.deadline_ms = 0;
  delivered.consumer = 0;
  delivered.note = AppendNote(change, delivered.note);
  returned_.emplace(key.priority(), key.id());
}

void QueueStore::EraseFresh(const ItemKey& key) {
  if (!by_priority()) return fresh_.Erase(key.id());
  // What is delivered is the first one nearly always.
  TreeKeyBuffer buffer;
  if (AsText(tree_->KeyOf(tree_->First(), &buffer)) == AsText(key.view())) {
    tree_->EraseFirst();
  } else {
    tree_->Erase(key.view());
  }
}

std::uint64_t QueueStore::Locate(const ItemKey& key) const {
  const std::uint64_t id = key.id();
  if (!delivered_.empty()) {
    const auto found = delivered_.find(id);
    if (found != delivered_.end()) return found->second.location;
  }
  if (by_priority()) {
    const TreeIndex::Place place = tree_->Find(key.view());
    return place.valid() ? tree_->At(place).location : 0;
  }
  const std::uint64_t* word = fresh_.Find(id);
  return word == nullptr ? 0 : *word;
}

std::uint64_t QueueStore::Unlink(const ItemKey& key) {
  const std::uint64_t id = key.id();
  const std::uint64_t location = Locate(key);
  if (location == 0) return 0;
  const auto found = delivered_.find(id);
  if (found == delivered_.end()) {
    // Not at hand only where a whole queue is dropped unread, or where it cannot be read.
    if (const RecordHeader* record = log_.Peek(location); record != nullptr) {
      payload_bytes_ -= std::uint64_t{record->key_bytes} + record->value_bytes;
    } else {
      payload_is_exact_ = false;
    }
    EraseFresh(key);
    return location;
  }
  payload_bytes_ -= key.size + found->second.value_bytes;
  if (found->second.leased()) {
    TP_CHECK(deadlines_.erase({found->second.deadline_ms, id}) == 1);
  } else {
    TP_CHECK(returned_.erase({key.priority(), id}) == 1);
  }
  if (found->second.note != 0) log_.Kill(found->second.note);
  delivered_.erase(found);
  return location;
}

void QueueStore::Remove(const ItemKey& key) {
  const std::uint64_t location = Unlink(key);
  if (location != 0) KillRecord(location, {});
}

// ---- For the core's machinery.

IndexUsage QueueStore::index_usage() const {
  if (by_priority()) {
    return {.used_bytes = tree_->bytes(), .allocated_bytes = tree_->allocated_bytes()};
  }
  return {.used_bytes = fresh_.allocated_bytes(), .allocated_bytes = fresh_.allocated_bytes()};
}

bool QueueStore::HasKey(Bytes key) { return Locate(ItemKey::Of(key)) != 0; }

std::uint64_t* QueueStore::FindSlot(const RecordHeader& record, std::uint64_t location) {
  const ItemKey key = ItemKey::Of(Log::KeyOf(record));
  if (record.type == RecordType::kLease) {
    const auto noted = delivered_.find(key.id());
    return noted != delivered_.end() && noted->second.note == location ? &noted->second.note
                                                                       : nullptr;
  }
  if (Locate(key) != location) return nullptr;
  if (const auto found = delivered_.find(key.id()); found != delivered_.end()) {
    return &found->second.location;
  }
  if (!by_priority()) return fresh_.Find(key.id());
  found_ = location;
  return &found_;
}

void QueueStore::Relocate(std::uint64_t* slot, const RecordHeader& record, std::uint64_t moved) {
  if (slot == &found_) {
    tree_->Replace(Log::KeyOf(record), moved, false);
  } else {
    *slot = moved;
  }
}

void QueueStore::Discard(std::uint64_t* /*slot*/, std::uint64_t location) {
  Remove(ItemKey::Of(Log::KeyOf(*log_.At(location))));
}

bool QueueStore::IndexSlice(absl::FunctionRef<bool()> /*done*/) { return false; }

bool QueueStore::FreeSlice(std::uint64_t* /*position*/, absl::FunctionRef<bool()> done) {
  while (!deadlines_.empty()) {
    if (done()) return true;
    const std::uint64_t id = deadlines_.begin()->second;
    Remove(KeyOf(id, delivered_.find(id)->second));
  }
  for (Ref first = FirstReady(); first.location != 0; first = FirstReady()) {
    if (done()) return true;
    Remove(first.key);
  }
  return false;
}

void QueueStore::VisitRecords(absl::FunctionRef<void(std::uint64_t)> visit) const {
  VisitReady([&](const Ref& ref) {
    visit(ref.location);
    return true;
  });
  for (const auto& [id, delivered] : delivered_) {
    if (delivered.leased()) visit(delivered.location);
    if (delivered.note != 0) visit(delivered.note);
  }
}

void QueueStore::CheckInvariants() const {
  fresh_.CheckInvariants();
  if (by_priority()) {
    tree_->CheckInvariants();
    TP_CHECK(fresh_.empty());
  }
  // Ready ones are in order, so none is there twice.
  std::uint64_t ready = 0;
  std::uint64_t payload_bytes = 0;
  std::unordered_set<std::uint64_t> ready_again;
  ItemKey last;
  bool all_read = true;
  const auto check_record = [&](const ItemKey& key, std::uint64_t location) {
    const RecordHeader* record = log_.segments().Find(location);
    all_read = all_read && record != nullptr;
    if (record == nullptr) return;
    TP_CHECK(AsText(Log::KeyOf(*record)) == AsText(key.view()));
    payload_bytes += std::uint64_t{record->key_bytes} + record->value_bytes;
  };
  VisitReady([&](const Ref& ref) {
    TP_CHECK(AsText(last.view()) < AsText(ref.key.view()));
    TP_CHECK(ref.key.id() < NextId());
    TP_CHECK(Locate(ref.key) == ref.location);
    if (delivered_.contains(ref.key.id())) ready_again.insert(ref.key.id());
    check_record(ref.key, ref.location);
    last = ref.key;
    ++ready;
    return true;
  });
  std::uint64_t leased = 0;
  for (const auto& [id, delivered] : delivered_) {
    const ItemKey key = KeyOf(id, delivered);
    TP_CHECK(id < NextId());
    TP_CHECK(delivered.deliveries > 0);
    TP_CHECK(ready_again.contains(id) != delivered.leased());
    TP_CHECK(returned_.contains({key.priority(), id}) != delivered.leased());
    TP_CHECK(by_priority() ? !tree_->Find(key.view()).valid() : fresh_.Find(id) == nullptr);
    if (!delivered.leased()) continue;
    TP_CHECK(deadlines_.contains({delivered.deadline_ms, id}));
    check_record(key, delivered.location);
    ++leased;
  }
  TP_CHECK(leased == deadlines_.size());
  TP_CHECK(ready + leased == size());
  TP_CHECK(payload_bytes <= payload_bytes_);
  TP_CHECK(payload_bytes == payload_bytes_ || !all_read || !payload_is_exact_);
}

}  // namespace tidepool::storage
