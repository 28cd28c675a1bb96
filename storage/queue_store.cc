// Pushing, delivering, and the ends of leases. What changes the indexes is in
// queue_store_change.cc.
#include "storage/queue_store.h"

#include <algorithm>
#include <cstring>

#include "proto/base/check.h"
#include "proto/base/key_hash.h"
#include "proto/base/limits.h"
#include "storage/partition.h"
#include "storage/spill/fetched_records.h"

namespace tidepool::storage {
namespace {

// Per call, delivered and expired: some 500 us of work at most.
constexpr std::uint64_t kItemsPerCallMax = 4096;
constexpr std::uint64_t kReleasesPerCallMax = 1024;
// Ids of one term: more than are pushed in it, at any rate.
constexpr unsigned kIdBitsPerTerm = 40;
static_assert(limits::kTermMax < 1ull << (64 - kIdBitsPerTerm));
// Of the heap, for an item in each of the three containers of leases: a slot of a hash table that
// is half full, and two nodes of trees.
constexpr std::uint64_t kDeliveredSlots = 2;
constexpr std::uint64_t kSetNodeBytes = 48;

void StoreBigEndian(std::byte* to, std::uint64_t word) {
  StoreUnaligned(to, __builtin_bswap64(word));
}
std::uint64_t LoadBigEndian(const std::byte* from) {
  return __builtin_bswap64(LoadUnaligned<std::uint64_t>(from));
}

// A time beyond the end of time is `otherwise`.
std::uint64_t After(std::uint64_t now_ms, std::uint64_t by_ms, std::uint64_t otherwise) {
  return now_ms + by_ms < now_ms ? otherwise : now_ms + by_ms;
}

}  // namespace

ItemKey ItemKey::Make(bool by_priority, std::uint64_t priority, std::uint64_t id) {
  ItemKey key;
  if (by_priority) {
    StoreBigEndian(key.bytes, priority);
    key.size = 8;
  }
  StoreBigEndian(key.bytes + key.size, id);
  key.size += 8;
  return key;
}

ItemKey ItemKey::Of(Bytes key) {
  TP_CHECK(key.size() == 8 || key.size() == 16);
  ItemKey of;
  of.size = static_cast<std::uint32_t>(key.size());
  std::memcpy(of.bytes, key.data(), key.size());
  return of;
}

std::uint64_t ItemKey::id() const { return LoadBigEndian(bytes + size - 8); }
std::uint64_t ItemKey::priority() const { return size == 16 ? LoadBigEndian(bytes) : 0; }

QueueStore::QueueStore(Partition& partition, Log& log, CoreMemory& memory,
                       const TreeIndexOptions& tree)
    : Store(log),
      partition_(partition),
      delivered_max_(partition.options().queue.delivered_max),
      fresh_(memory) {
  if (partition.kind() == Kind::kPriority) tree_.emplace(memory, nullptr, tree);
  if (log.spills() && !partition.options().tombstones) stream_ = Stream::kSpill;
  is_durable_ = partition.is_durable();
  if (is_durable_) stream_ = Stream::kDurable;
}

// ---- Looking.

std::uint64_t QueueStore::DeliveriesOf(std::uint64_t id) const {
  if (delivered_.empty()) return 0;
  const auto found = delivered_.find(id);
  return found == delivered_.end() ? 0 : found->second.deliveries;
}

QueueStore::Ref QueueStore::RefOf(TreeIndex::Place place) const {
  if (!place.valid()) return {};
  TreeKeyBuffer buffer;
  return {ItemKey::Of(tree_->KeyOf(place, &buffer)), tree_->At(place).location};
}

QueueStore::Ref QueueStore::FirstFresh() const {
  if (by_priority()) return RefOf(tree_->First());
  if (fresh_.empty()) return {};
  return {ItemKey::Make(false, 0, fresh_.begin()), *fresh_.Find(fresh_.begin())};
}

bool QueueStore::ReturnedIsFirst() const {
  if (returned_.empty()) return false;
  // By arrival, what was delivered before is older than all that was not.
  if (!by_priority()) return true;
  const Ref fresh = RefOf(tree_->First());
  return fresh.location == 0 ||
         *returned_.begin() < std::pair(fresh.key.priority(), fresh.key.id());
}

QueueStore::Ref QueueStore::FirstReturned() const {
  const std::uint64_t id = returned_.begin()->second;
  return RefOf(id, delivered_.find(id)->second);
}

QueueStore::Ref QueueStore::FirstReady() const {
  return ReturnedIsFirst() ? FirstReturned() : FirstFresh();
}

// Otherwise items of a small priority that cannot be leased would stand before items whose leases
// have ended. These keep the table full: for ever, if all pops use leases.
QueueStore::Ref QueueStore::FirstToLease() const {
  const bool full = delivered_.size() >= delivered_max_;
  return full && !returned_.empty() ? FirstReturned() : FirstReady();
}

// The first term is 1. Once there were items, also some that came with a move, ids are dense.
std::uint64_t QueueStore::NextId() const {
  if (next_id_ != 0) return next_id_;
  return (std::uint64_t{partition_.term().value() - 1} << kIdBitsPerTerm) + 1;
}

void QueueStore::VisitReady(absl::FunctionRef<bool(const Ref&)> visit) const {
  auto returned = returned_.begin();
  // Those that go before this key.
  const auto visit_returned = [&](std::uint64_t priority, std::uint64_t id) {
    for (; returned != returned_.end() && *returned < std::pair(priority, id); ++returned) {
      if (!visit(RefOf(returned->second, delivered_.find(returned->second)->second))) return false;
    }
    return true;
  };
  if (by_priority()) {
    for (TreeIndex::Place at = tree_->First(); at.valid(); at = tree_->Next(at)) {
      const Ref ref = RefOf(at);
      if (!visit_returned(ref.key.priority(), ref.key.id()) || !visit(ref)) return;
    }
    visit_returned(~0ull, ~0ull);
    return;
  }
  if (!visit_returned(~0ull, ~0ull)) return;
  for (std::uint64_t id = fresh_.begin(); id < fresh_.end(); id = fresh_.Next(id + 1)) {
    if (!visit({ItemKey::Make(false, 0, id), *fresh_.Find(id)})) return;
  }
}

// Fetches together the items that will be delivered next.
void QueueStore::WantAhead(std::uint64_t items) {
  std::uint64_t left = std::min(items, kItemsPerCallMax);
  VisitReady([&](const Ref& ref) {
    if (left-- == 0 || !log_.MayWantMore()) return false;
    log_.WantAhead(ref.location);
    return true;
  });
}

// An item must be fetched: the call ends, and its earlier deliveries stand.
void QueueStore::StopAtBlocked(QueueProgress* progress, std::uint64_t items_max) {
  if (progress->items == 0) return WantAhead(items_max);
  log_.Unblock();
  progress->more = true;
}

QueueItem QueueStore::ViewOf(const Ref& ref, const RecordHeader& record, std::uint64_t deliveries) {
  QueueItem item;
  item.id = ref.key.id();
  item.priority = ref.key.priority();
  item.deliveries = deliveries;
  item.version = Lsn(record.lsn);
  item.expiry_ms = log_.ExpiryOf(record);
  item.value_bytes = record.value_bytes;
  item.location = ref.location;
  if (record.type == RecordType::kPut) [[likely]] {
    item.value = log_.StoredOf(record);
    return item;
  }
  log_.ExtentSegmentsOf(ref.location, record, extent_segments_);
  extent_ = {record.value_bytes, extent_segments_, log_.ExtentRemainderOf(record)};
  item.extent = &extent_;
  return item;
}

std::optional<std::uint64_t> QueueStore::ConsumerOf(std::uint64_t id) const {
  const auto found = delivered_.find(id);
  if (found == delivered_.end() || !found->second.leased()) return std::nullopt;
  return found->second.consumer;
}

std::uint64_t QueueStore::delivered_bytes() const {
  return delivered_.size() * kDeliveredSlots * (sizeof(std::uint64_t) + sizeof(Delivered) + 1) +
         (deadlines_.size() + returned_.size()) * kSetNodeBytes;
}

std::uint64_t QueueStore::size() const {
  return (by_priority() ? tree_->size() : fresh_.size()) + returned_.size() + deadlines_.size();
}

// ---- Pushing.

LogRecord QueueStore::ChangeOf(LogRecordType type, const ItemKey& key) const {
  LogRecord change;
  change.partition = partition_.id();
  change.type = type;
  change.key = key.view();
  change.hash = KeyHash(change.key);
  return change;
}

bool QueueStore::UnderCapacity(std::uint64_t now_ms) {
  const std::uint64_t capacity = partition_.options().queue.capacity;
  if (capacity == 0 || size() < capacity) return true;
  if (!expires_) return false;
  // An expired item that was not met takes no other item's place.
  const Ref first = FirstReady();
  if (first.location == 0) return false;
  const RecordHeader* record = log_.Look(first.location);
  if (record == nullptr || !HasExpired(*record, now_ms)) return false;
  return Apply(ChangeOf(LogRecordType::kExpire, first.key)).value() != 0 && size() < capacity;
}

PushOutcome QueueStore::Push(Bytes value, const PushOptions& options, std::uint64_t now_ms) {
  PushOutcome refused;
  if (value.size() > limits::kValueBytesMax) {
    refused.code = StatusCode::kInvalidArgument;
    return refused;
  }
  if (value.size() > log_.extent_threshold_bytes()) {
    ValueWriter writer(&log_, value.size());
    refused.code = writer.Write(0, value);
    if (refused.code != StatusCode::kOk) return refused;
    return Push(writer, options, now_ms);
  }
  LogRecord change;
  change.value = value;
  change.value_bytes = value.size();
  return PushChange(change, options, now_ms);
}

PushOutcome QueueStore::Push(ValueWriter& value, const PushOptions& options, std::uint64_t now_ms) {
  PushOutcome outcome;
  if (value.value_bytes() > limits::kValueBytesMax || !value.Complete()) {
    outcome.code = StatusCode::kInvalidArgument;
    return outcome;
  }
  const ReservationScope scope = value.UseReservation();
  LogRecord change;
  change.value = value.Staged();
  change.extent_segments = value.segments_;
  change.value_bytes = value.value_bytes();
  outcome = PushChange(change, options, now_ms);
  if (outcome.code == StatusCode::kOk) {
    value.segments_.clear();  // They are the record's now.
    value.Release();
  }
  return outcome;
}

bool QueueStore::Reserve(std::uint64_t items, std::uint64_t value_bytes) {
  if (!log_.makes_room()) return true;
  constexpr std::uint64_t kTrailersAndPadding = 16;
  const std::uint64_t bytes =
      value_bytes + items * (sizeof(RecordHeader) + sizeof(ItemKey) + kTrailersAndPadding);
  const std::uint64_t segment_bytes = log_.segment_bytes() - sizeof(SegmentHeader);
  if (log_.MakeRoom(stream_, std::min(bytes, segment_bytes), MemoryClass::kUser) != Room::kNone) {
    return true;
  }
  partition_.CountRefused();
  return false;
}

PushOutcome QueueStore::PushChange(LogRecord& change, const PushOptions& options,
                                   std::uint64_t now_ms) {
  PushOutcome outcome;
  if (!UnderCapacity(now_ms)) {
    outcome.code = StatusCode::kResourceExhausted;
    outcome.at_capacity = true;
    return outcome;
  }
  const ItemKey key = ItemKey::Make(by_priority(), options.priority, NextId());
  change.partition = partition_.id();
  change.key = key.view();
  change.hash = KeyHash(change.key);
  const std::uint64_t ttl_ms = options.ttl_ms == kTtlDefault || options.ttl_ms == kTtlKeep
                                   ? partition_.options().ttl_ms
                               : options.ttl_ms == kTtlNone ? 0
                                                            : options.ttl_ms;
  change.expiry_ms = ttl_ms == 0 ? 0 : After(now_ms, ttl_ms, 0);
  expires_ = expires_ || change.expiry_ms != 0;
  outcome.version = Apply(change);
  if (outcome.version.value() == 0) {
    partition_.CountRefused();
    outcome.code = StatusCode::kResourceExhausted;
    return outcome;
  }
  outcome.id = key.id();
  return outcome;
}

// ---- Delivering.

QueueProgress QueueStore::LeasePop(std::uint64_t items_max, const LeaseTerms& terms,
                                   std::uint64_t now_ms, Visitor visitor) {
  if (terms.visibility_ms != 0) return Deliver(items_max, &terms, now_ms, visitor);
  QueueProgress refused;
  refused.code = StatusCode::kInvalidArgument;
  return refused;
}

QueueProgress QueueStore::Deliver(std::uint64_t items_max, const LeaseTerms* lease,
                                  std::uint64_t now_ms, Visitor visitor) {
  QueueProgress progress;
  ReleaseOverdue(now_ms);
  std::uint64_t expired_left = kItemsPerCallMax;
  while (progress.items < items_max) {
    const Ref ref = lease == nullptr ? FirstReady() : FirstToLease();
    if (ref.location == 0) return progress;
    const RecordHeader* const record = LookItem(ref);
    if (record == nullptr && log_.lost() != StatusCode::kOk && progress.items == 0) {
      // The item is unreadable. The caller gets an error, and the item no longer blocks the others.
      LogRecord removal = ChangeOf(LogRecordType::kDelete, ref.key);
      if (MakeRoom(removal) == Room::kReady) ApplyRoomed(removal);
      return progress;
    }
    if (record == nullptr) [[unlikely]] {
      StopAtBlocked(&progress, items_max);
      return progress;
    }
    const bool expired = HasExpired(*record, now_ms);
    if (progress.items == kItemsPerCallMax || (expired && expired_left-- == 0)) {
      progress.more = true;
      return progress;
    }
    LogRecord change = ChangeOf(expired ? LogRecordType::kExpire : LogRecordType::kDelete, ref.key);
    std::uint64_t deliveries = DeliveriesOf(ref.key.id());
    LeaseNote note;
    if (lease != nullptr && !expired) {
      if (deliveries == 0 && delivered_.size() >= delivered_max_) {
        progress.code = StatusCode::kResourceExhausted;
        return progress;
      }
      note = {After(now_ms, lease->visibility_ms, kNeverMs), lease->visibility_ms, lease->consumer,
              ++deliveries, record->value_bytes};
      change.type = LogRecordType::kLease;
      change.value = std::as_bytes(std::span(&note, 1));
      change.value_bytes = change.value.size();
    }
    // Before the visitor sees it: what it has accepted is gone, and must not fail.
    const Room room = MakeRoom(change);
    if (room == Room::kMoved) continue;
    if (room == Room::kNone) {
      partition_.CountRefused();
      progress.code = StatusCode::kResourceExhausted;
      return progress;
    }
    if (!expired) {
      if (!visitor(ViewOf(ref, *record, deliveries))) return progress;
      ++progress.items;
    }
    ApplyRoomed(change);
  }
  return progress;
}

QueueProgress QueueStore::Peek(std::uint64_t items_max, std::uint64_t now_ms, Visitor visitor) {
  QueueProgress progress;
  ReleaseOverdue(now_ms);
  std::uint64_t expired_left = kItemsPerCallMax;
  bool blocked = false;
  VisitReady([&](const Ref& ref) {
    if (progress.items == items_max) return false;
    const RecordHeader* const record = LookItem(ref);
    blocked = record == nullptr;
    if (blocked) return false;
    const bool expired = HasExpired(*record, now_ms);
    if (progress.items == kItemsPerCallMax || (expired && expired_left-- == 0)) {
      progress.more = true;
      return false;
    }
    if (expired) return true;
    if (!visitor(ViewOf(ref, *record, DeliveriesOf(ref.key.id())))) return false;
    ++progress.items;
    return true;
  });
  if (blocked) WantAhead(items_max);  // Nothing has changed: all of it is shown again.
  return progress;
}

// ---- Ends of leases.

StatusCode QueueStore::EndLease(LogRecordType type, std::uint64_t id, std::uint64_t deliveries,
                                std::uint64_t now_ms) {
  ReleaseOverdue(now_ms);
  const auto found = delivered_.find(id);
  if (found == delivered_.end()) return StatusCode::kNotFound;
  const Delivered& delivered = found->second;
  // Overdue ones that are left: too many at once.
  if (!delivered.leased() || delivered.deliveries != deliveries ||
      delivered.deadline_ms <= now_ms) {
    return StatusCode::kFailedPrecondition;
  }
  const ItemKey key = KeyOf(id, delivered);
  if (Apply(ChangeOf(type, key)).value() != 0) return StatusCode::kOk;
  partition_.CountRefused();
  return StatusCode::kResourceExhausted;
}

StatusCode QueueStore::Ack(std::uint64_t id, std::uint64_t deliveries, std::uint64_t now_ms) {
  return EndLease(LogRecordType::kDelete, id, deliveries, now_ms);
}

StatusCode QueueStore::Nack(std::uint64_t id, std::uint64_t deliveries, std::uint64_t now_ms) {
  return EndLease(LogRecordType::kRelease, id, deliveries, now_ms);
}

bool QueueStore::ReleaseOverdue(std::uint64_t now_ms) {
  for (std::uint64_t released = 0; NextTimeoutMs() <= now_ms; ++released) {
    if (released == kReleasesPerCallMax) return true;
    const std::uint64_t id = deadlines_.begin()->second;
    const ItemKey key = KeyOf(id, delivered_.find(id)->second);
    TP_CHECK(Apply(ChangeOf(LogRecordType::kRelease, key)).value() != 0);
  }
  return false;
}

}  // namespace tidepool::storage
