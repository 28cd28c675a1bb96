// Operations of a queue: items wait in the order of their arrival, or of a priority.
//
// daemon's handlers -> partition -> [QueueStore] -> LocationDeque (arrival) or TreeIndex
// (priority), and the log, where each item is a record.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/functional/function_ref.h>

#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "proto/base/bytes.h"
#include "proto/base/ids.h"
#include "proto/base/status.h"
#include "storage/hash_store.h"
#include "storage/location_deque.h"
#include "storage/store.h"
#include "storage/tree_index.h"
#include "storage/value_io.h"

namespace tidepool::storage {

class Partition;

// Options of a partition of a queue.
struct QueueOptions {
  std::uint64_t capacity = 0;  // Items, leased ones included; 0: as many as memory holds.
  // Bound on items that were delivered under a lease and are neither acked nor popped: about 150
  // bytes of heap each, so that forgotten leases cannot exhaust the node.
  std::uint32_t delivered_max = 65'536;
};

// Key of an item's record: its id as 8 bytes big-endian. In a priority queue the priority precedes
// it in the same form: keys of ready items sort in the order of pops.
struct ItemKey {
  std::byte bytes[16];
  std::uint32_t size = 0;

  static ItemKey Make(bool by_priority, std::uint64_t priority, std::uint64_t id);
  static ItemKey Of(Bytes key);  // 8 or 16 bytes.
  Bytes view() const { return {bytes, size}; }
  std::uint64_t id() const;
  std::uint64_t priority() const;  // 0 without one.
};

// An item as it is delivered. Views as StoredValue has them.
struct QueueItem : StoredValue {
  std::uint64_t id = 0;
  std::uint64_t priority = 0;
  // How often it was delivered under a lease, this time included. 0: never. Names the lease.
  std::uint64_t deliveries = 0;
  Lsn version;
  std::uint64_t expiry_ms = 0;  // 0: never.
};

struct PushOptions {
  std::uint64_t priority = 0;  // Least first; without meaning to Kind::kQueue.
  std::uint64_t ttl_ms = kTtlDefault;
};

struct PushOutcome {
  StatusCode code = StatusCode::kOk;
  bool at_capacity = false;  // Why kResourceExhausted: not for memory.
  std::uint64_t id = 0;
  Lsn version;
};

// How far a call has come that delivers items.
struct QueueProgress {
  StatusCode code = StatusCode::kOk;  // Reason of the stop; `items` were delivered all the same.
  std::uint64_t items = 0;            // Accepted by the visitor.
  bool more = false;                  // The call ended at its own bound: call again for the rest.
};

struct LeaseTerms {
  std::uint64_t visibility_ms = 0;  // Above 0.
  std::uint64_t consumer = 0;
};

struct QueueLength {
  std::uint64_t ready = 0;  // Including expired items that were not yet met.
  std::uint64_t leased = 0;
};

// State of an item beside its value, for a queue that moves; see partition_image.h.
struct MovedItem {
  std::uint64_t id = 0;
  std::uint64_t priority = 0;
  std::uint64_t deliveries = 0;
  std::uint64_t consumer = 0;  // If it is leased.
  // In ms, plus 1: an ended time is 1.
  std::uint64_t lease_left_ms = 0;   // 0: not leased.
  std::uint64_t expiry_left_ms = 0;  // 0: without expiry.
  std::uint64_t value_bytes = 0;
};

// Owner core only, no locks. `now_ms` is wall time that never goes back (CoreStore::NowMs).
//
// Order: ids grow by one with each push, from a first id that grows with the partition's term. A
// partition that has lost its items and starts anew thus reuses no id, which a late ack might hit.
// Kind::kQueue delivers the least id first, Kind::kPriority the least priority and among equals
// the least id. An item whose lease ended goes back to its place in this order, so a queue
// delivers it next.
//
// Leases: an item is leased to one consumer at a time, until it is acked (gone), nacked or overdue
// (ready again). Each delivery counts up; only the count of the present delivery acks. Overdue
// leases end lazily, at the beginning of each operation (1,024 per call). NextTimeoutMs supports a
// timer for idle times.
//
// Expired items are never delivered. An item that expires while it is leased can still be acked.
//
// Every change is a LogRecord of an item: an observer that applies them in order has the same
// queue. In a durable queue each is also a record in the log. The end of a lease is left out if
// the log has no room for it: after a crash the item is leased again, for the duration of its
// lease.
//
// If Log::blocked() is true after an operation, it met an item that must be fetched first. Its
// outcome is void, and it changed nothing except for its first step (ends of leases and removal of
// expired items). A delivery that meets such an item behind others ends before it.
//
// Memory: the record, and 8 bytes of a LocationDeque or about 20 of a TreeIndex; delivered items
// stand in a table on the heap (delivered_bytes) until they are gone. kResourceExhausted always
// means: nothing changed, and pops and acks still work. Cost of a push or pop: one write or read of
// the record and O(1), by priority O(log n).
//
// Invariant: an item is in exactly one of ready, leased and done (nothing refers to it).
class QueueStore final : public Store {
 public:
  // Sees an item; false: it is refused and stays as it was. Must not call the store.
  using Visitor = absl::FunctionRef<bool(const QueueItem&)>;

  // Returns: kOk with id and version, kInvalidArgument (above 1 GiB), kResourceExhausted (see
  // at_capacity).
  PushOutcome Push(Bytes value, const PushOptions& options, std::uint64_t now_ms);
  // Pushes a value that was written ahead. After kOk the writer is empty, otherwise untouched.
  PushOutcome Push(ValueWriter& value, const PushOptions& options, std::uint64_t now_ms);
  // Ensures that the next pushes of this many items, with values of `value_bytes` in all, are not
  // refused in the middle while memory is still to come. False: memory is to come
  // (Log::makes_room), and no item was pushed.
  bool Reserve(std::uint64_t items, std::uint64_t value_bytes);

  // Delivers up to `items_max` ready items in order (4,096 per call, and as many expired items)
  // until the visitor refuses an item, and removes each accepted item. Without ready items: kOk and
  // no items. Returns: kOk, kResourceExhausted (namespaces with tombstones only).
  QueueProgress Pop(std::uint64_t items_max, std::uint64_t now_ms, Visitor visitor) {
    return Deliver(items_max, nullptr, now_ms, visitor);
  }
  // As Pop, but accepted items are leased. If the table has delivered_max items,
  // its first ready item goes before the first in order. Returns: kOk,
  // kInvalidArgument (visibility_ms is 0), kResourceExhausted (delivered_max items
  // wait for acks).
  QueueProgress LeasePop(std::uint64_t items_max, const LeaseTerms& terms, std::uint64_t now_ms,
                         Visitor visitor);
  // Shows ready items in order, as Pop would deliver them, without changes.
  QueueProgress Peek(std::uint64_t items_max, std::uint64_t now_ms, Visitor visitor);

  // Removes a leased item. Returns: kOk, kNotFound (it is gone, or was never leased),
  // kFailedPrecondition (it is not leased under this count any more), kResourceExhausted
  // (namespaces with tombstones only).
  StatusCode Ack(std::uint64_t id, std::uint64_t deliveries, std::uint64_t now_ms);
  // Makes a leased item ready again. Returns as Ack, but never kResourceExhausted.
  StatusCode Nack(std::uint64_t id, std::uint64_t deliveries, std::uint64_t now_ms);

  // Ends leases that are overdue, at most 1,024. True: more to do.
  bool ReleaseOverdue(std::uint64_t now_ms);
  // Returns the end of the next lease; kNeverMs: no leases.
  std::uint64_t NextTimeoutMs() const {
    return deadlines_.empty() ? kNeverMs : deadlines_.begin()->first;
  }
  QueueLength Length() const { return {size() - deadlines_.size(), deadlines_.size()}; }
  // Returns the consumer of the item; unset if it is not leased.
  std::optional<std::uint64_t> ConsumerOf(std::uint64_t id) const;
  // ---- Copying during changes.
  // (priority, id); of Kind::kQueue the priority is 0. Items of a greater id come behind those of
  // the same priority.
  using ItemPlace = std::pair<std::uint64_t, std::uint64_t>;
  // Walks the delivered items, leased or not, in no order; false: the end. An item that changes
  // between two calls may be met twice or, if delivered meanwhile, not at all.
  struct ImagePlace;
  bool NextDelivered(ImagePlace* place, ItemPlace* item) const;
  // Finds the first never delivered item behind `after`; false: the end.
  bool NextFresh(ItemPlace after, ItemPlace* item) const;
  // Reads the item at a place, expired or not; false: no item, or (Log::blocked) it must be fetched
  // first.
  bool ShowItem(ItemPlace place, QueueItem* item);
  // Wants the item, which will be shown soon, beside the wanted records. False: enough are wanted.
  bool WantItem(ItemPlace place);

  // ---- Moving, while nothing else changes the queue but expiry and compaction.
  // How far it is read.
  struct ImagePlace {
    enum class Step : std::uint8_t { kReturned, kLeased, kFresh };
    Step step = Step::kReturned;
    // (priority, id) of the last item, or (deadline, id).
    std::pair<std::uint64_t, std::uint64_t> last;
  };
  // Finds the next item and passes expired items; false: the end, or (Log::blocked) it must be
  // fetched first. Items that were never leased come in their order.
  bool NextOfImage(ImagePlace* place, std::uint64_t now_ms, QueueItem* item, MovedItem* moved);
  // 0: there was no item yet.
  std::uint64_t next_id() const { return next_id_; }
  // Fills an empty queue: first the number that it continues with, then every item. Returns: kOk,
  // kInvalidArgument (inconsistent with earlier items, or with a sound queue), kResourceExhausted
  // (no change).
  StatusCode BeginImport(std::uint64_t next_id);
  StatusCode Import(const MovedItem& item, Bytes value, std::uint64_t now_ms);
  // The writer is empty after kOk and untouched else.
  StatusCode Import(const MovedItem& item, ValueWriter& value, std::uint64_t now_ms);

  // ---- Recovery: into an empty queue, before anything else, in the order of their keys.
  struct AdoptedItem {
    ItemKey key;
    std::uint64_t location = 0;  // Of its record and lease note; 0: none.
    std::uint64_t value_bytes = 0;
    bool expires = false;
    std::uint64_t note_location = 0;
    LeaseNote note;
  };
  // A lease that was out gets its full time again. False: no memory.
  bool Adopt(const AdoptedItem& item, std::uint64_t now_ms);

  // Approximate heap: cost of leases beside the core's memory.
  std::uint64_t delivered_bytes() const;
  // Ends of leases of a durable queue that are not in the log, for lack of room.
  std::uint64_t releases_left_out() const { return releases_left_out_; }

  // ---- Store
  bool valid() const override { return !tree_.has_value() || tree_->valid(); }
  std::uint64_t size() const override;
  std::uint64_t payload_bytes() const override { return payload_bytes_; }
  IndexUsage index_usage() const override;
  // Does not expire a leased item: 0.
  Lsn Apply(const LogRecord& record) override;
  std::uint64_t* FindSlot(const RecordHeader& record, std::uint64_t location) override;
  void Relocate(std::uint64_t* slot, const RecordHeader& record, std::uint64_t moved) override;
  void Discard(std::uint64_t* slot, std::uint64_t location) override;
  bool HasKey(Bytes key) override;
  bool IndexSlice(absl::FunctionRef<bool()> done) override;
  bool FreeSlice(std::uint64_t* position, absl::FunctionRef<bool()> done) override;
  void CheckInvariants() const override;
  void VisitRecords(absl::FunctionRef<void(std::uint64_t)> visit) const override;

 private:
  friend class Partition;

  // An item and its record's location; `location` 0: no record.
  struct Ref {
    ItemKey key;
    std::uint64_t location = 0;
  };
  // An item that was delivered under a lease: leased or (`deadline_ms` 0) in returned_. It has all
  // that the end of the lease needs: the record may be on a device.
  struct Delivered {
    std::uint64_t location = 0;
    std::uint64_t priority = 0;
    std::uint64_t value_bytes = 0;
    std::uint64_t deliveries = 0;
    std::uint64_t deadline_ms = 0;
    std::uint64_t consumer = 0;
    std::uint64_t note = 0;  // Durable queue: location of the lease note; 0: no note.
    std::uint64_t visibility_ms = 0;
    bool leased() const { return deadline_ms != 0; }
  };

  QueueStore(Partition& partition, Log& log, CoreMemory& memory, const TreeIndexOptions& tree);

  // ---- Looking.
  bool by_priority() const { return tree_.has_value(); }
  ItemKey KeyOf(std::uint64_t id, const Delivered& delivered) const {
    return ItemKey::Make(by_priority(), delivered.priority, id);
  }
  Ref RefOf(std::uint64_t id, const Delivered& delivered) const {
    return {KeyOf(id, delivered), delivered.location};
  }
  Ref RefOf(TreeIndex::Place place) const;
  bool HasExpired(const RecordHeader& record, std::uint64_t now_ms) const {
    const std::uint64_t expiry_ms = log_.ExpiryOf(record);
    return expiry_ms != 0 && expiry_ms <= now_ms;
  }
  std::uint64_t DeliveriesOf(std::uint64_t id) const;
  // Returns the id of the next pushed item.
  std::uint64_t NextId() const;
  // First ready item that was never leased, and whether an item of returned_ goes before it.
  Ref FirstFresh() const;
  bool ReturnedIsFirst() const;
  // The item that is to be delivered next.
  Ref FirstReady() const;
  Ref FirstReturned() const;
  // Next item for a delivery under a lease: with a full table, an item that is already in it.
  Ref FirstToLease() const;
  // Ready or leased; 0: it is in neither.
  std::uint64_t Locate(const ItemKey& key) const;
  QueueItem ViewOf(const Ref& ref, const RecordHeader& record, std::uint64_t deliveries);
  void VisitReady(absl::FunctionRef<bool(const Ref&)> visit) const;
  // With all of its value. Null: it must be fetched first.
  const RecordHeader* LookItem(const Ref& ref) {
    const RecordHeader* const record = log_.Look(ref.location);
    const bool is_large = record != nullptr && record->type == RecordType::kPutExtent;
    return !is_large || log_.LookExtent(ref.location, *record) ? record : nullptr;
  }
  void WantAhead(std::uint64_t items);
  void StopAtBlocked(QueueProgress* progress, std::uint64_t items_max);
  ItemKey KeyAt(ItemPlace place) const {
    return ItemKey::Make(by_priority(), place.first, place.second);
  }
  Ref PassDelivered(ImagePlace* place) const;
  Ref FreshBehind(ItemPlace after) const;
  Ref PassImage(ImagePlace* place) const;
  void WantImage(ImagePlace place);

  // ---- Changing.
  LogRecord ChangeOf(LogRecordType type, const ItemKey& key) const;
  QueueProgress Deliver(std::uint64_t items_max, const LeaseTerms* lease, std::uint64_t now_ms,
                        Visitor visitor);
  // True if there is room for a further item.
  bool UnderCapacity(std::uint64_t now_ms);
  PushOutcome PushChange(LogRecord& change, const PushOptions& options, std::uint64_t now_ms);
  StatusCode ImportChange(const MovedItem& item, LogRecord& change, std::uint64_t now_ms);
  StatusCode EndLease(LogRecordType type, std::uint64_t id, std::uint64_t deliveries,
                      std::uint64_t now_ms);
  bool MakeIndexRoom(const LogRecord& change);
  Room MakeRoom(const LogRecord& change);
  Room MakeRecordRoom(const LogRecord& change);
  std::uint64_t AppendRecord(const LogRecord& change);
  // Room is made: gives it its version and applies it.
  Lsn ApplyRoomed(LogRecord& change);
  void ApplyPush(const LogRecord& change);
  void ApplyRemoval(const LogRecord& change);
  void ApplyLease(const LogRecord& change);
  std::uint64_t AppendNote(const LogRecord& change, std::uint64_t before);
  LeaseNote NoteReleased(std::uint64_t id) const;
  void ApplyRelease(const LogRecord& change);
  void EraseFresh(const ItemKey& key);
  // Nothing refers to the item any more, and its bytes count no more. Returns its location, or 0.
  std::uint64_t Unlink(const ItemKey& key);
  void Remove(const ItemKey& key);

  Partition& partition_;
  const std::uint32_t delivered_max_;
  std::uint64_t releases_left_out_ = 0;
  std::uint64_t next_id_ = 0;  // 0: there was no item yet.
  std::uint64_t payload_bytes_ = 0;
  bool payload_is_exact_ = true;
  bool expires_ = false;  // Some item can, or could.

  // Ready items that were never leased: of Kind::kPriority in the tree, else in the deque.
  std::optional<TreeIndex> tree_;
  LocationDeque fresh_;
  Stream stream_ = Stream::kVolatile;
  bool is_durable_ = false;
  // The other ready items, as (priority, id). On the heap, so that a lease can always end: a page
  // of the tree may find no memory. All are in delivered_, which bounds them.
  std::set<std::pair<std::uint64_t, std::uint64_t>> returned_;

  absl::flat_hash_map<std::uint64_t, Delivered> delivered_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> deadlines_;  // (deadline, id) of leased items.

  std::uint64_t found_ = 0;  // Result of FindSlot if a tree page has no word of its own.
  Extent extent_;            // Target of QueueItem::extent.
  std::vector<std::uint32_t> extent_segments_;
};

}  // namespace tidepool::storage
