// A queue's items on their way to another core: one by one out of this store, and into another.
#include <algorithm>

#include "proto/base/check.h"
#include "proto/base/key_hash.h"
#include "proto/base/limits.h"
#include "storage/partition.h"
#include "storage/queue_store.h"

namespace tidepool::storage {
namespace {

// What is left of the time until `at_ms`, and 1: 0 is no such time, and 1 one that is over.
std::uint64_t LeftMs(std::uint64_t at_ms, std::uint64_t now_ms) {
  if (at_ms == 0 || at_ms == kNeverMs) return at_ms;
  return (at_ms > now_ms ? at_ms - now_ms : 0) + 1;
}

std::uint64_t AtMs(std::uint64_t left_ms, std::uint64_t now_ms) {
  if (left_ms == 0 || left_ms == kNeverMs) return left_ms;
  return now_ms + left_ms < now_ms ? kNeverMs : now_ms + left_ms - 1;
}

}  // namespace

// The location of the next one; 0: there is none.
std::uint64_t QueueStore::PassImage(ImagePlace* place) const {
  if (place->step == ImagePlace::Step::kReturned) {
    const auto next = returned_.upper_bound(place->last);
    if (next != returned_.end()) {
      place->last = *next;
      return delivered_.find(next->second)->second.location;
    }
    *place = {ImagePlace::Step::kLeased, {0, 0}};
  }
  if (place->step == ImagePlace::Step::kLeased) {
    const auto next = deadlines_.upper_bound(place->last);
    if (next != deadlines_.end()) {
      place->last = *next;
      return delivered_.find(next->second)->second.location;
    }
    *place = {ImagePlace::Step::kFresh, {0, 0}};
  }
  if (by_priority()) {
    const ItemKey last = ItemKey::Make(true, place->last.first, place->last.second);
    const TreeIndex::Place next = tree_->UpperBound(last.view());
    if (!next.valid()) return 0;
    TreeKeyBuffer buffer;
    const ItemKey key = ItemKey::Of(tree_->KeyOf(next, &buffer));
    place->last = {key.priority(), key.id()};
    return tree_->At(next).location;
  }
  std::uint64_t& id = place->last.second;
  for (id = std::max(id + 1, fresh_.begin()); id < fresh_.end(); ++id) {
    if (const std::uint64_t* word = fresh_.Find(id); word != nullptr) return *word;
  }
  return 0;
}

bool QueueStore::NextOfImage(ImagePlace* place, std::uint64_t now_ms, QueueItem* item,
                             MovedItem* moved) {
  for (;;) {
    const std::uint64_t location = PassImage(place);
    if (location == 0) return false;
    const std::uint64_t id = KeyOf(location).id();
    const auto found = delivered_.find(id);
    // One that is overdue is ready over there, as it is here for whoever asks next.
    const bool leased = found != delivered_.end() && found->second.deadline_ms > now_ms;
    if (!leased && HasExpired(location, now_ms)) continue;
    *item = ViewOf(location, found == delivered_.end() ? 0 : found->second.deliveries);
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
  for (Room room = Room::kMoved; room != Room::kReady;) {
    // What was delivered before stands on the heap only.
    room = is_fresh ? MakeRoom(change)
                    : log_.MakeRoom(Stream::kVolatile, log_.BytesFor(change), MemoryClass::kUser);
    if (room == Room::kNone) return StatusCode::kResourceExhausted;
  }
  partition_.Stamp(change);
  const bool extent = !change.extent_segments.empty();
  const std::uint64_t location = log_.Append(
      Stream::kVolatile, change, extent ? RecordType::kPutExtent : RecordType::kPut, change.lsn);
  if (extent) log_.AdoptExtent(change.extent_segments, change.value_bytes);
  payload_bytes_ += change.key.size() + change.value_bytes;
  if (!is_fresh) {
    const std::uint64_t deadline_ms = AtMs(item.lease_left_ms, now_ms);
    delivered_[item.id] = {location, item.deliveries, deadline_ms, item.consumer};
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

}  // namespace tidepool::storage
