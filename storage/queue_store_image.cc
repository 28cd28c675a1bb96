// Moves a queue's items into a file or to another core: one by one out of this store, and into
// another store.
#include <algorithm>

#include "proto/base/check.h"
#include "proto/base/key_hash.h"
#include "proto/base/limits.h"
#include "storage/partition.h"
#include "storage/queue_store.h"
#include "storage/spill/fetched_records.h"

namespace tidepool::storage {
namespace {

// Returns the time left until `at_ms`, plus 1: 0 means no time, 1 an ended time.
std::uint64_t LeftMs(std::uint64_t at_ms, std::uint64_t now_ms) {
  if (at_ms == 0 || at_ms == kNeverMs) return at_ms;
  return (at_ms > now_ms ? at_ms - now_ms : 0) + 1;
}

std::uint64_t AtMs(std::uint64_t left_ms, std::uint64_t now_ms) {
  if (left_ms == 0 || left_ms == kNeverMs) return left_ms;
  return now_ms + left_ms < now_ms ? kNeverMs : now_ms + left_ms - 1;
}

}  // namespace

// Behind the last one the place is at the first fresh item.
QueueStore::Ref QueueStore::PassDelivered(ImagePlace* place) const {
  if (place->step == ImagePlace::Step::kReturned) {
    const auto next = returned_.upper_bound(place->last);
    if (next != returned_.end()) {
      place->last = *next;
      return RefOf(next->second, delivered_.find(next->second)->second);
    }
    *place = {ImagePlace::Step::kLeased, {0, 0}};
  }
  if (place->step == ImagePlace::Step::kLeased) {
    const auto next = deadlines_.upper_bound(place->last);
    if (next != deadlines_.end()) {
      place->last = *next;
      return RefOf(next->second, delivered_.find(next->second)->second);
    }
    *place = {ImagePlace::Step::kFresh, {0, 0}};
  }
  return {};
}

QueueStore::Ref QueueStore::FreshBehind(ItemPlace after) const {
  if (by_priority()) return RefOf(tree_->UpperBound(KeyAt(after).view()));
  const std::uint64_t id = fresh_.Next(after.second + 1);
  return id < fresh_.end() ? Ref{ItemKey::Make(false, 0, id), *fresh_.Find(id)} : Ref{};
}

QueueStore::Ref QueueStore::PassImage(ImagePlace* place) const {
  if (const Ref delivered = PassDelivered(place); delivered.location != 0) return delivered;
  const Ref next = FreshBehind(place->last);
  if (next.location != 0) place->last = {next.key.priority(), next.key.id()};
  return next;
}

bool QueueStore::NextDelivered(ImagePlace* place, ItemPlace* item) const {
  const Ref next = PassDelivered(place);
  if (next.location != 0) *item = {next.key.priority(), next.key.id()};
  return next.location != 0;
}

bool QueueStore::NextFresh(ItemPlace after, ItemPlace* item) const {
  const Ref next = FreshBehind(after);
  if (next.location != 0) *item = {next.key.priority(), next.key.id()};
  return next.location != 0;
}

bool QueueStore::ShowItem(ItemPlace place, QueueItem* item) {
  const ItemKey key = KeyAt(place);
  const Ref ref{key, Locate(key)};
  if (ref.location == 0) return false;
  const RecordHeader* const record = LookItem(ref);
  if (record != nullptr) *item = ViewOf(ref, *record, DeliveriesOf(place.second));
  return record != nullptr;
}

bool QueueStore::WantItem(ItemPlace place) {
  const std::uint64_t location = Locate(KeyAt(place));
  if (location != 0) log_.WantAhead(location);
  return log_.MayWantMore();
}

// Fetches the next items together.
void QueueStore::WantImage(ImagePlace place) {
  for (std::size_t left = kFetchedRecordsMax; left > 0 && log_.MayWantMore(); --left) {
    const Ref ref = PassImage(&place);
    if (ref.location == 0) return;
    log_.WantAhead(ref.location);
  }
}

bool QueueStore::NextOfImage(ImagePlace* place, std::uint64_t now_ms, QueueItem* item,
                             MovedItem* moved) {
  for (;;) {
    const ImagePlace before = *place;
    const Ref ref = PassImage(place);
    if (ref.location == 0) return false;
    const RecordHeader* const record = LookItem(ref);
    if (record == nullptr && log_.lost() != StatusCode::kOk) {
      log_.Unblock();  // It cannot be read any more: the others must not stay for that.
      continue;
    }
    if (record == nullptr) {
      *place = before;
      WantImage(before);
      return false;
    }
    const std::uint64_t id = ref.key.id();
    const auto found = delivered_.find(id);
    // One that is overdue is ready over there, as it is here for whoever asks next.
    const bool leased = found != delivered_.end() && found->second.deadline_ms > now_ms;
    if (!leased && HasExpired(*record, now_ms)) continue;
    *item = ViewOf(ref, *record, found == delivered_.end() ? 0 : found->second.deliveries);
    *moved = {};
    moved->id = id;
    moved->priority = item->priority;
    moved->deliveries = item->deliveries;
    moved->value_bytes = item->value_bytes;
    moved->expiry_left_ms = LeftMs(item->expiry_ms, now_ms);
    if (leased) {
      moved->lease_left_ms = LeftMs(found->second.deadline_ms, now_ms);
      moved->consumer = found->second.consumer;
    }
    return true;
  }
}

StatusCode QueueStore::BeginImport(std::uint64_t next_id) {
  if (next_id_ != 0 || size() != 0) return StatusCode::kInvalidArgument;
  next_id_ = next_id;
  return StatusCode::kOk;
}

StatusCode QueueStore::Import(const MovedItem& item, Bytes value, std::uint64_t now_ms) {
  LogRecord change;
  change.value = value;
  change.value_bytes = value.size();
  return ImportChange(item, change, now_ms);
}

StatusCode QueueStore::Import(const MovedItem& item, ValueWriter& value, std::uint64_t now_ms) {
  if (!value.Complete()) return StatusCode::kInvalidArgument;
  const ReservationScope scope = value.UseReservation();
  LogRecord change;
  change.value = value.Staged();
  change.extent_segments = value.segments_;
  change.value_bytes = value.value_bytes();
  const StatusCode code = ImportChange(item, change, now_ms);
  if (code != StatusCode::kOk) return code;
  value.segments_.clear();  // They are the record's now.
  value.Release();
  return code;
}

StatusCode QueueStore::ImportChange(const MovedItem& item, LogRecord& change,
                                    std::uint64_t now_ms) {
  const ItemKey key = ItemKey::Make(by_priority(), item.priority, item.id);
  const bool is_fresh = item.deliveries == 0;
  const bool is_sound =
      item.id != 0 && item.id < next_id_ && change.value_bytes == item.value_bytes &&
      (by_priority() || item.priority == 0) && (item.lease_left_ms == 0 || !is_fresh) &&
      Locate(key) == 0 && (!is_fresh || by_priority() || item.id >= fresh_.end());
  if (!is_sound) return StatusCode::kInvalidArgument;
  if (!is_fresh && delivered_.size() >= delivered_max_) return StatusCode::kResourceExhausted;
  change.partition = partition_.id();
  change.key = key.view();
  change.hash = KeyHash(change.key);
  const std::uint64_t expiry_ms = AtMs(item.expiry_left_ms, now_ms);
  change.expiry_ms = expiry_ms == kNeverMs ? 0 : expiry_ms;
  expires_ = expires_ || change.expiry_ms != 0;
  for (Room room = Room::kMoved; room != Room::kReady;) {
    // What was delivered before stands on the heap only.
    room = is_fresh ? MakeRoom(change) : MakeRecordRoom(change);
    if (room == Room::kNone) {
      log_.NoteRefused();
      return StatusCode::kResourceExhausted;
    }
  }
  partition_.Stamp(change);
  const std::uint64_t location = AppendRecord(change);
  if (!is_fresh) {
    const std::uint64_t deadline_ms = AtMs(item.lease_left_ms, now_ms);
    delivered_[item.id] = {.location = location,
                           .priority = item.priority,
                           .value_bytes = item.value_bytes,
                           .deliveries = item.deliveries,
                           .deadline_ms = deadline_ms,
                           .consumer = item.consumer};
    if (deadline_ms != 0) {
      deadlines_.emplace(deadline_ms, item.id);
    } else {
      returned_.emplace(item.priority, item.id);
    }
  } else if (by_priority()) {
    tree_->Insert(change.key, location, false);
  } else {
    fresh_.Append(item.id, location);
  }
  return StatusCode::kOk;
}

// Ids continue those of the term under which it is served again: no id is given twice.
bool QueueStore::Adopt(const AdoptedItem& item, std::uint64_t now_ms) {
  const std::uint64_t id = item.key.id();
  expires_ = expires_ || item.expires;
  if (item.note_location == 0) {
    if (by_priority()) {
      if (!tree_->MakeRoom(item.key.view())) return false;
      tree_->Insert(item.key.view(), item.location, false);
    } else {
      if (!fresh_.MakeRoom(id)) return false;
      fresh_.Append(id, item.location);
    }
  } else {
    const bool leased = item.note.deadline_ms != 0;
    const std::uint64_t visibility_ms = item.note.visibility_ms;
    const std::uint64_t deadline_ms = !leased                           ? 0
                                      : now_ms + visibility_ms < now_ms ? kNeverMs
                                                                        : now_ms + visibility_ms;
    delivered_[id] = {.location = item.location,
                      .priority = item.key.priority(),
                      .value_bytes = item.value_bytes,
                      .deliveries = item.note.deliveries,
                      .deadline_ms = deadline_ms,
                      .consumer = item.note.consumer,
                      .note = item.note_location,
                      .visibility_ms = item.note.visibility_ms};
    if (leased) {
      deadlines_.emplace(deadline_ms, id);
    } else {
      returned_.emplace(item.key.priority(), id);
    }
  }
  payload_bytes_ += item.key.size + item.value_bytes;
  return true;
}

}  // namespace tidepool::storage
