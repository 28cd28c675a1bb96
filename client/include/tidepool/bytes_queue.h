// The queue and priority namespaces on plain bytes: items that wait for whoever takes them.
//
// client.OpenOrCreate<BytesQueue>("jobs") -> [BytesQueue] => the core that owns the queue
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

// Of an item, in its queue: grows by one with each push, and is never given again.
using ItemId = std::uint64_t;
// Least first.
using Priority = std::uint64_t;

// To wait for ever (30 days).
inline constexpr std::chrono::milliseconds kWaitForEver{30ll * 86'400'000};

struct PushOptions {
  // Time to live; 0 or kForEver: for ever. Absent: what the namespace says. Expired items are never
  // delivered.
  std::optional<std::chrono::milliseconds> ttl;
  // How long to wait while the queue holds as many items as its capacity.
  std::chrono::milliseconds wait{0};
  std::chrono::milliseconds timeout{0};  // As CallOptions::timeout, of each message.
  // Beside those of the handle. Has no effect yet.
  Promise promise = Promise::kNone;
  Receipt* receipt = nullptr;  // Where to tell how safe a change is (receipt.h); null: nowhere.
};

struct PopOptions {
  // Above 0: items are not removed but leased: for so long nobody else gets them. Who has not acked
  // them by then loses them to the next consumer, so a consumer that dies loses nothing.
  std::chrono::milliseconds lease{0};
  // How long to wait while there is no item. The owner keeps the wait: nothing travels meanwhile
  // but one message a second. Waiters are served in the order in which these messages came: none is
  // passed over, but who has waited longer may be served later.
  std::chrono::milliseconds wait{0};
  std::chrono::milliseconds timeout{0};  // As CallOptions::timeout, of each message.
  // Beside those of the handle: kPopOnly. See promise.h.
  Promise promise = Promise::kNone;
  Receipt* receipt = nullptr;  // Where to tell how safe a change is (receipt.h); null: nowhere.
};

// Names one delivery of one item, for Ack and Nack. Plain data: another process may ack.
struct ItemLease {
  ItemId id = 0;
  std::uint64_t deliveries = 0;
};

struct Item {
  std::string value;
  ItemId id = 0;
  Priority priority = 0;
  // How often it was delivered under a lease, this time included; 0: never. More than 1 says that a
  // consumer may have worked on it before.
  std::uint64_t deliveries = 0;

  ItemLease lease() const { return {id, deliveries}; }
};

// Some items in their order. Owns what the views show.
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
  // The delivery of each, for MultiAck.
  std::vector<ItemLease> leases() const;
  // kOk, or what ended a pop of several messages early: these items were taken all the same.
  // kUnknown: perhaps others as well.
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
  // Items are under this lease until they are taken: longer than taking the items of one message
  // (60 KiB) lasts.
  std::chrono::milliseconds lease{60'000};
  std::chrono::milliseconds timeout{0};  // As CallOptions::timeout, of each message.
};

// What became of a batch of items: one status for each. Those that were taken are in the queue in
// the order of the batch.
class TIDEPOOL_API PushBatch {
 public:
  std::size_t size() const { return ids_.size(); }
  bool AllOk() const { return pushed() == size(); }
  std::size_t pushed() const;
  // 0 <= i < size(), else the program ends. 0: not pushed, or, after kUnknown, perhaps.
  ItemId id(std::size_t i) const;
  Status status(std::size_t i) const;
  // kOk, or the first of those that are not, with the item's number.
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

// Items that expired and were not yet come across are among the ready ones.
struct QueueLength {
  std::uint64_t ready = 0;
  std::uint64_t leased = 0;
};

// What BytesQueue and BytesPriorityQueue have in common: the way out.
//
// One core holds the whole queue: it is as fast as that core, and as large as its memory. Threads,
// memory and how operations may end: as BytesMap. Each item is delivered by one pop, whatever
// happens to messages and connections. A pop that ends with kUnknown may have taken its items with
// it, as does a program that ends with popped items in its hands: who must lose none pops under a
// lease.
//
// Two operations of one handle and thread happen in their order, but those that wait.
//
// A queue with lanes (NamespaceOptions::lanes) is several of these under one name. A handle, with
// its copies, pushes to one of them, so what it pushes stays in its order, for whoever pops it;
// among handles there is no order. It takes from the same lane first, and where that has nothing,
// from others, so a consumer sees each producer's items in order, and no item waits while a
// consumer does. `capacity` is shared out evenly: a push is refused, or waits, when its lane has
// its part. Length is of all lanes. A lane whose node is down is passed over as long as others have
// items. Single lanes are asked one after the other, so a pop costs up to three messages more than
// one that finds an item at once. PopAsync and PopManyAsync are refused with kUnimplemented: they
// would see one lane only.
class TIDEPOOL_API BytesItems {
 public:
  explicit BytesItems(Namespace space) : space_(std::move(space)) {}
  const Namespace& space() const { return space_; }

  // The next item. Returns: kNotFound (there is none), kDeadlineExceeded (nor did one come while it
  // waited), kResourceExhausted (65,536 items wait for an ack), kInvalidArgument (a lease below 0).
  Result<Item> Pop(const PopOptions& options = {}) const;
  // Also kUnavailable: thousands of expired items were in front of the next one; pop again.
  Future<Item> PopAsync(const PopOptions& options = {}) const;

  // Up to `items_max` items at a time, far cheaper per item; with a wait, it waits for the first
  // one. None: an empty batch, or kDeadlineExceeded if it waited. Several messages where one does
  // not hold them: a failure of a later one ends it early, and is the batch's status().
  Result<ItemBatch> PopMany(std::size_t items_max, const PopOptions& options = {}) const;
  // The same with one message: as many as fit 60 KiB. kInvalidArgument also: 0 items.
  Future<ItemBatch> PopManyAsync(std::size_t items_max, const PopOptions& options = {}) const;

  // The items that Pop would deliver next; they stay. kNotFound: there is none.
  Result<Item> Peek(const CallOptions& options = {}) const;
  // As many as fit one message (60 KiB).
  Result<ItemBatch> PeekMany(std::size_t items_max, const CallOptions& options = {}) const;

  // The item is done with, and gone. Returns: kOk, kNotFound (it is gone, or was never leased),
  // kFailedPrecondition (this lease has ended; somebody else has the item, had it, or will).
  Status Ack(const ItemLease& lease, const CallOptions& options = {}) const;
  Future<void> AckAsync(const ItemLease& lease, const CallOptions& options = {}) const;
  // The item is ready again at once, at its old place. Returns as Ack.
  Status Nack(const ItemLease& lease, const CallOptions& options = {}) const;
  // A status for each lease.
  std::vector<Status> MultiAck(std::span<const ItemLease> leases,
                               const CallOptions& options = {}) const;

  Result<QueueLength> Length(const CallOptions& options = {}) const;

  // Takes items in bulk where the queue lives: for a program on the machine of the node that owns
  // it (NodeInfo::local; of its lanes, those there), until it is empty, `items_max` are taken, or
  // `take` says false: that item stays. Returns how many were taken.
  //
  // Nothing is lost: an item leaves the queue after `take` has returned true for it. If the program
  // dies, those whose `take` was not reached, and at most those of one message for which it had
  // returned true, are ready again when their lease ends, with a count of deliveries that says so;
  // the same where `take` lasted longer than the lease (these are not counted). Messages hold at
  // most 60 KiB of items. Leases of others are not waited for.
  //
  // Errors: kFailedPrecondition (the queue is on another machine; the text names its node; or it
  // has moved there meanwhile: what was taken is taken), kInvalidArgument (a lease of 0 or below),
  // and as Pop under a lease, where nothing was taken yet; else what was taken is returned, and the
  // failure shows at the next call.
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

  // Items have up to 1 GiB. Returns: the item's id; kResourceExhausted (at capacity, or no memory;
  // pops still work); kDeadlineExceeded (at capacity while it waited).
  Result<ItemId> Push(std::string_view value, const PushOptions& options = {}) const;
  Future<ItemId> PushAsync(std::string_view value, const PushOptions& options = {}) const;

  // Far cheaper per item. What others push may come between. With PushOptions::wait, which is that
  // of each piece, one message after the other; else all at once, and where the queue fills up, an
  // item may be refused before one that is taken.
  PushBatch MultiPush(std::span<const std::string_view> values,
                      const PushOptions& options = {}) const;
  // PushOptions::wait is not looked at.
  Future<PushBatch> MultiPushAsync(std::span<const std::string_view> values,
                                   const PushOptions& options = {}) const;

  // Pushes that travel by the hundreds, whoever of a program's functions makes them: see
  // buffered.h.
  BufferedBytesQueue Buffered(const BufferedOptions& options = {}) const {
    return BufferedBytesQueue(space(), options);
  }
};

// A value and its place in a priority queue.
struct PrioritizedValue {
  Priority priority = 0;
  std::string_view value;
};

// A namespace of kind priority: the least priority first, and among equals the one pushed first.
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

// Makers of results, for futures; the call is done.
TIDEPOOL_API Result<Item> TakeItem(CallRef call);
TIDEPOOL_API Result<ItemBatch> TakeItems(CallRef call);

}  // namespace internal
}  // namespace tidepool
