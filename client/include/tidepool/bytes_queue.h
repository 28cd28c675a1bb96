// The queue and priority namespaces on plain bytes.
//
//   auto queue = client.OpenOrCreate<BytesQueue>("jobs");
//   queue->Push("job 1");
//   Result<Item> item = queue->Pop({.lease = 10s, .wait = 60s});
//   if (item.ok()) queue->Ack(item->lease());
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tidepool/buffered.h"
#include "tidepool/bytes_map.h"
#include "tidepool/export.h"
#include "tidepool/future.h"
#include "tidepool/namespace.h"
#include "tidepool/promise.h"
#include "tidepool/status.h"

namespace tidepool {

// Number of an item in its queue: grows with each push and is never reused.
using ItemId = std::uint64_t;
// The least priority is popped first.
using Priority = std::uint64_t;

// The longest wait: 30 days.
inline constexpr std::chrono::milliseconds kWaitForEver{30ll * 86'400'000};

struct PushOptions {
  // Time to live. 0 or kForEver: never expires. Unset: the namespace's default. Expired items are
  // never delivered.
  std::optional<std::chrono::milliseconds> ttl;
  // Maximum wait while the queue is at capacity.
  std::chrono::milliseconds wait{0};
  std::chrono::milliseconds timeout{0};  // As CallOptions::timeout, per message.
  // In addition to the handle's promises. Has no effect yet.
  Promise promise = Promise::kNone;
  Receipt* receipt = nullptr;  // If not null, receives the durability of the change (receipt.h).
};

struct PopOptions {
  // Above 0: items are leased instead of removed, and other consumers do not get them for this
  // time. An item without an ack by then is delivered to the next consumer, so a dying consumer
  // loses nothing.
  std::chrono::milliseconds lease{0};
  // Maximum wait while there is no item. The owner keeps the wait, so waiting costs one message per
  // second. Waiters are served in the order of these messages: no waiter is passed over, but a
  // longer wait does not guarantee an earlier item.
  std::chrono::milliseconds wait{0};
  std::chrono::milliseconds timeout{0};  // As CallOptions::timeout, per message.
  // In addition to the handle's promises: kPopOnly. See promise.h.
  Promise promise = Promise::kNone;
  Receipt* receipt = nullptr;  // If not null, receives the durability of the change (receipt.h).
};

// Identifies one delivery of one item, for Ack and Nack. Plain data: another process may ack.
struct ItemLease {
  ItemId id = 0;
  std::uint64_t deliveries = 0;
};

struct Item {
  std::string value;
  ItemId id = 0;
  Priority priority = 0;
  // Number of deliveries under a lease, including this delivery; 0: never leased. Above 1, a
  // consumer may have worked on the item before.
  std::uint64_t deliveries = 0;

  ItemLease lease() const { return {id, deliveries}; }
};

// Items in queue order. Owns the data of its views.
class TIDEPOOL_API ItemBatch {
 public:
  struct View {
    std::string_view value;
    ItemId id = 0;
    Priority priority = 0;
    std::uint64_t deliveries = 0;

    ItemLease lease() const { return {id, deliveries}; }
  };

  ItemBatch() = default;
  ItemBatch(ItemBatch&&) noexcept = default;
  ItemBatch& operator=(ItemBatch&&) noexcept = default;

  std::size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  const View& operator[](std::size_t i) const { return items_[i]; }
  std::vector<View>::const_iterator begin() const { return items_.begin(); }
  std::vector<View>::const_iterator end() const { return items_.end(); }
  // Returns the lease of each item, for MultiAck.
  std::vector<ItemLease> leases() const;
  // Returns kOk, or the failure that ended a pop of several messages early; these items were
  // popped. After kUnknown, more items may have been popped.
  const Status& status() const { return status_; }

 private:
  friend struct internal::Access;
  Status Add(internal::CallRef call, bool* more);
  void EndEarly(Status why) { status_ = std::move(why); }

  std::vector<internal::CallRef> calls_;
  std::vector<View> items_;
  Status status_;
};

struct DrainOptions {
  std::size_t items_max = static_cast<std::size_t>(-1);
  // Lease of the items until they are taken. Choose it longer than taking the items of one message
  // (60 KiB) lasts.
  std::chrono::milliseconds lease{60'000};
  std::chrono::milliseconds timeout{0};  // As CallOptions::timeout, per message.
};

// The outcomes of a batch of pushes, a status per item. Accepted items are in the queue in the
// order of the batch.
class TIDEPOOL_API PushBatch {
 public:
  std::size_t size() const { return ids_.size(); }
  bool AllOk() const { return pushed() == size(); }
  std::size_t pushed() const;
  // Returns the item's id; 0: not pushed, or, after kUnknown, perhaps pushed.
  // REQUIRES: 0 <= i < size(), otherwise the program ends.
  ItemId id(std::size_t i) const;
  Status status(std::size_t i) const;
  // Returns kOk, or the first failure with the item's index.
  Status FirstFailure() const;

 private:
  friend struct internal::Access;
  void AddPushed(ItemId first, std::size_t count, std::uint64_t step);
  void AddFailed(std::size_t count, const Status& why);
  void Append(PushBatch other);

  struct Failure {
    std::size_t first;
    std::size_t count;
    Status why;
  };
  std::vector<ItemId> ids_;
  std::vector<Failure> failures_;
};

// Number of items. Expired items that were not yet found count as ready.
struct QueueLength {
  std::uint64_t ready = 0;
  std::uint64_t leased = 0;
};

// Operations that BytesQueue and BytesPriorityQueue share: pop, peek, ack and drain.
//
// One core holds the whole queue, so that core bounds its speed and its memory bounds its size.
// Threads, lifetime, memory and errors: as BytesMap. Each item is delivered by one pop, whatever
// happens to messages and connections. A pop that ends with kUnknown may have removed items, and a
// program may die with popped items. Pop under a lease to lose no item.
//
// Order: two operations of one handle and thread take effect in call order, except operations that
// wait.
//
// Lanes (NamespaceOptions::lanes): several queues under one name. A handle and its copies push to
// one lane, so their items stay in order for every consumer. Items of different handles are
// unordered. A handle pops from its own lane first, and from other lanes if that is empty. A
// consumer therefore sees each producer's items in order, and no item waits while a consumer waits.
// `capacity` is divided evenly: a push is refused, or waits, when its lane has its part. Length
// counts all lanes. A lane whose node is down is skipped while other lanes have items. Lanes are
// asked one by one, so a pop that does not find an item at once costs up to three messages more.
// PopAsync and PopManyAsync fail with kUnimplemented, because they would see one lane only.
class TIDEPOOL_API BytesItems {
 public:
  explicit BytesItems(Namespace space) : space_(std::move(space)) {}
  const Namespace& space() const { return space_; }

  // Pops the next item. Errors: kNotFound (no item); kDeadlineExceeded (no item during the wait);
  // kResourceExhausted (65,536 items wait for an ack); kInvalidArgument (a negative lease).
  Result<Item> Pop(const PopOptions& options = {}) const;
  // Also fails with kUnavailable after thousands of expired items in front of the next item; pop
  // again.
  Future<Item> PopAsync(const PopOptions& options = {}) const;

  // Pops up to `items_max` items, at far less cost per item. With a wait, waits for the first item.
  // Without items, returns an empty batch, or kDeadlineExceeded after a wait. Sends several
  // messages if one does not hold the items; a failure of a later message ends the batch early and
  // is its status().
  Result<ItemBatch> PopMany(std::size_t items_max, const PopOptions& options = {}) const;
  // Pops with one message: as many items as fit 60 KiB. Errors: also kInvalidArgument (0 items).
  Future<ItemBatch> PopManyAsync(std::size_t items_max, const PopOptions& options = {}) const;

  // Returns the item that Pop would deliver next and leaves it. Errors: kNotFound (no item).
  Result<Item> Peek(const CallOptions& options = {}) const;
  // Returns as many of the next items as fit one message (60 KiB).
  Result<ItemBatch> PeekMany(std::size_t items_max, const CallOptions& options = {}) const;

  // Removes a leased item. Returns: kOk; kNotFound (already removed, or never leased);
  // kFailedPrecondition (this lease has ended, and another consumer may get the item).
  Status Ack(const ItemLease& lease, const CallOptions& options = {}) const;
  Future<void> AckAsync(const ItemLease& lease, const CallOptions& options = {}) const;
  // Gives a leased item back: it is ready at once, at its old place. Returns: as Ack.
  Status Nack(const ItemLease& lease, const CallOptions& options = {}) const;
  // Returns a status per lease.
  std::vector<Status> MultiAck(std::span<const ItemLease> leases,
                               const CallOptions& options = {}) const;

  Result<QueueLength> Length(const CallOptions& options = {}) const;

  // Takes items in bulk on the machine of the node that owns the queue (NodeInfo::local). For a
  // queue with lanes, takes from the lanes there. Ends when the queue is empty, after `items_max`
  // items, or when `take` returns false; that item stays. Returns the number of items taken.
  //
  // No item is lost: an item leaves the queue after `take` has returned true for it. If the program
  // dies, untaken items become ready again when their lease ends, with a higher delivery count. So
  // do taken items of at most one message (60 KiB). If `take` lasts longer than the lease, its
  // items also become ready again and are not counted. Items leased by other consumers are skipped.
  //
  // Errors: kFailedPrecondition (the queue is, or has moved, on another machine; the text names its
  // node); kInvalidArgument (a lease of 0 or below); and the errors of Pop under a lease. After at
  // least one taken item, the count is returned and the failure shows at the next call.
  Result<std::uint64_t> DrainLocal(const std::function<bool(const ItemBatch::View&)>& take,
                                   const DrainOptions& options = {}) const;

 private:
  Namespace space_;
};

// A namespace of kind queue: first in, first out.
class TIDEPOOL_API BytesQueue : public BytesItems {
 public:
  static constexpr NamespaceKind kKind = NamespaceKind::kQueue;

  explicit BytesQueue(Namespace space) : BytesItems(std::move(space)) {}

  // Appends an item of up to 1 GiB and returns its id.
  // Errors: kResourceExhausted (at capacity, or no memory; pops still work); kDeadlineExceeded (at
  // capacity during the whole wait).
  Result<ItemId> Push(std::string_view value, const PushOptions& options = {}) const;
  Future<ItemId> PushAsync(std::string_view value, const PushOptions& options = {}) const;

  // Appends items at far less cost per item. Items of other producers may come between. Without
  // PushOptions::wait, sends all at once; if the queue fills up, an item may be refused before a
  // later item that is accepted. With a wait, sends one message after the other and waits for each.
  PushBatch MultiPush(std::span<const std::string_view> values,
                      const PushOptions& options = {}) const;
  // Ignores PushOptions::wait.
  Future<PushBatch> MultiPushAsync(std::span<const std::string_view> values,
                                   const PushOptions& options = {}) const;

  // Returns a handle that collects pushes and sends them by the hundreds (buffered.h).
  BufferedBytesQueue Buffered(const BufferedOptions& options = {}) const {
    return BufferedBytesQueue(space(), options);
  }
};

// A value and its priority.
struct PrioritizedValue {
  Priority priority = 0;
  std::string_view value;
};

// A namespace of kind priority: the least priority first, then in push order.
class TIDEPOOL_API BytesPriorityQueue : public BytesItems {
 public:
  static constexpr NamespaceKind kKind = NamespaceKind::kPriority;

  explicit BytesPriorityQueue(Namespace space) : BytesItems(std::move(space)) {}

  // As BytesQueue.
  Result<ItemId> Push(Priority priority, std::string_view value,
                      const PushOptions& options = {}) const;
  Future<ItemId> PushAsync(Priority priority, std::string_view value,
                           const PushOptions& options = {}) const;
  PushBatch MultiPush(std::span<const PrioritizedValue> items,
                      const PushOptions& options = {}) const;
  Future<PushBatch> MultiPushAsync(std::span<const PrioritizedValue> items,
                                   const PushOptions& options = {}) const;
  BufferedBytesPriorityQueue Buffered(const BufferedOptions& options = {}) const {
    return BufferedBytesPriorityQueue(space(), options);
  }
};

namespace internal {

// Make results of futures from the finished call.
TIDEPOOL_API Result<Item> TakeItem(CallRef call);
TIDEPOOL_API Result<ItemBatch> TakeItems(CallRef call);

}  // namespace internal
}  // namespace tidepool
