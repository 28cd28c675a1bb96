#include "daemon/snapshot/item_source.h"

#include <algorithm>
#include <utility>

#include "proto/base/check.h"
#include "storage/spill/fetched_records.h"

namespace tidepool::daemon::snapshot {
namespace {

using storage::ItemKey;
using storage::LogRecordType;
using storage::QueueItem;
using storage::QueueStore;

// Size of a node of a std::set.
constexpr std::size_t kPlaceBytes = 48;
// The walk also meets items pushed in front of it. If they come faster than they are written, the
// walk has no end. Bound: this number of bytes plus this multiple of the bytes at the begin.
constexpr std::uint64_t kNewBytesMin = PartitionSource::kUntakenBytesMax;
constexpr std::uint64_t kNewTimes = 4;

std::uint64_t NewBytesMax(QueueStore& queue) {
  return kNewBytesMin + kNewTimes * queue.payload_bytes();
}

}  // namespace

ItemSource::ItemSource(storage::CoreStore& store, PartitionId partition)
    : PartitionSource(store, partition),
      by_priority_(Find()->kind() == Kind::kPriority),
      first_new_id_(Find()->queue().next_id()),
      new_bytes_left_(NewBytesMax(Find()->queue())) {
  Find()->AddObserver(this);
}

ItemSource::~ItemSource() {
  if (storage::Partition* held = Find(); held != nullptr) held->RemoveObserver(this);
}

void ItemSource::Forget() {
  waiting_.clear();
  sending_.reset();
}

void ItemSource::OnRecord(const storage::LogRecord& record) {
  if (!listening()) return;
  const ItemKey key = ItemKey::Of(record.key);
  const Place place{key.priority(), key.id()};
  switch (record.type) {
    case LogRecordType::kPut:
      // The walk will meet it, unless a greater priority has its turn.
      if (place <= passed_) Await(place);
      break;
    case LogRecordType::kDelete:
    case LogRecordType::kExpire:
      OnRemoval(place, record);
      break;
    case LogRecordType::kLease:
    case LogRecordType::kRelease:
      // It is not fresh any more; or it is perhaps still to be found, but elsewhere than before.
      if (place > passed_) Await(place);
      break;
  }
}

void ItemSource::OnRemoval(Place place, const storage::LogRecord& record) {
  if (sending_.has_value() && sending_->place == place) {
    Note({.kind = ImageItem::Kind::kLargeDrop});
    sending_.reset();
    return;
  }
  if (waiting_.erase(place) != 0 || place > passed_) return;
  Note({.kind = ImageItem::Kind::kDelete, .key = record.key, .version = record.lsn.value()});
}

void ItemSource::Await(Place place) {
  waiting_.insert(place);
  if (waiting_.size() * kPlaceBytes > kUntakenBytesMax) Fail(StatusCode::kResourceExhausted);
}

void ItemSource::Walk(storage::Partition& partition) {
  QueueStore& queue = partition.queue();
  if (!found_) return FindSlice(queue);
  const std::size_t before = untaken_bytes();
  for (std::uint64_t steps = 0; steps < kRecordsPerSlice && listening(); ++steps) {
    if (untaken_bytes() - before >= kBytesPerSlice) return;
    if (sending_.has_value()) {
      SendParts();
    } else if (!SendNext(queue)) {
      // Items that wait here go first: fetched records are kept for a single slice.
      if (store().blocked() && steps > 0) store().SkipWanted();
      return;
    }
  }
}

void ItemSource::FindSlice(QueueStore& queue) {
  for (std::uint64_t steps = 0; steps < kRecordsPerSlice && listening(); ++steps) {
    Place place;
    if (!queue.NextDelivered(&finding_, &place)) {
      found_ = true;
      return;
    }
    Await(place);
  }
}

bool ItemSource::Next(QueueStore& queue, Place* place) const {
  const bool is_fresh = queue.NextFresh(passed_, place);
  if (waiting_.empty() || (is_fresh && *place < *waiting_.begin())) return is_fresh;
  *place = *waiting_.begin();
  return true;
}

// False: there is nothing more, or it must be fetched first.
bool ItemSource::SendNext(QueueStore& queue) {
  Place place;
  if (!Next(queue, &place)) {
    walked_ = true;
    return false;
  }
  QueueItem item;
  const bool is_here = queue.ShowItem(place, &item);
  if (store().blocked()) {
    WantAhead(queue);
    return false;
  }
  TP_CHECK(is_here);
  waiting_.erase(place);
  passed_ = std::max(passed_, place);
  // Includes leased items, because no client has the lease after the restore.
  const bool has_expired = item.expiry_ms != 0 && item.expiry_ms <= store().NowMs();
  if (!has_expired) Send(place, item, queue);
  return true;
}

void ItemSource::Send(Place place, const QueueItem& item, QueueStore& queue) {
  const ItemKey key = ItemKey::Make(by_priority_, place.first, place.second);
  ImageItem sent;
  sent.key = key.view();
  sent.version = item.version.value();
  sent.expiry_ms = item.expiry_ms;
  if (item.extent == nullptr) {
    sent.value = item.value;
  } else {
    sent.kind = ImageItem::Kind::kLargeBegin;
    sent.number = item.value_bytes;
    sending_ = Large{place, storage::ValueReader::Pin(queue, item), 0};
  }
  Add(sent);
  CountNew(place, item);
}

void ItemSource::CountNew(Place place, const QueueItem& item) {
  if (place.second < first_new_id_) return;
  const std::uint64_t bytes = kPlaceBytes + item.value_bytes;
  if (bytes > new_bytes_left_) return Fail(StatusCode::kResourceExhausted);
  new_bytes_left_ -= bytes;
}

void ItemSource::SendParts() {
  Large& large = *sending_;
  for (std::size_t bytes = 0; large.sent < large.reader.value_bytes() && bytes < kBytesPerSlice;) {
    ImageItem part;
    part.kind = ImageItem::Kind::kLargePart;
    part.number = large.sent;
    part.value = large.reader.Part(large.sent, kBytesPerSlice);
    large.sent += part.value.size();
    bytes += part.value.size();
    Add(part);
  }
  if (large.sent < large.reader.value_bytes()) return;
  Add({.kind = ImageItem::Kind::kLargeEnd});
  sending_.reset();
}

// Fetches the next items together.
void ItemSource::WantAhead(QueueStore& queue) const {
  auto waiting = waiting_.begin();
  Place fresh;
  bool is_fresh = queue.NextFresh(passed_, &fresh);
  for (std::size_t left = storage::kFetchedRecordsMax; left > 0; --left) {
    const bool waits = waiting != waiting_.end() && (!is_fresh || *waiting < fresh);
    if ((!waits && !is_fresh) || !queue.WantItem(waits ? *waiting : fresh)) return;
    if (waits) {
      ++waiting;
    } else {
      is_fresh = queue.NextFresh(fresh, &fresh);
    }
  }
}

}  // namespace tidepool::daemon::snapshot
