#include "daemon/ops/queue_ops.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "daemon/ops/ttl_argument.h"
#include "proto/base/check.h"
#include "proto/wire/queue_ops.h"
#include "storage/queue_store.h"

namespace tidepool::daemon {
namespace {

using storage::QueueItem;
using storage::QueueStore;
using wire::Argument;

constexpr std::string_view kFull = "the queue is full: it holds as many items as its capacity";
constexpr std::string_view kNoRoom = "no room for an item in the answer; allow 60 KiB";

// ---- Pushing.

void RefuseFull(const OperationContext& context, Reply* reply) {
  if (context.may_wait) {
    reply->wait_for = WaitFor::kRoom;
  } else if (context.operation.has(Argument::kWaitMs)) {
    Refuse(reply, StatusCode::kDeadlineExceeded,
           "no room came in time: the queue, or of one with lanes this lane, stayed full");
  } else {
    Refuse(reply, StatusCode::kResourceExhausted, kFull);
    reply->answer.has_number = true;
    reply->answer.number = context.partition.options().queue.capacity;
  }
}

void HandlePush(const OperationContext& context, Reply* reply) {
  const wire::Operation& operation = context.operation;
  QueueStore& queue = context.partition.queue();
  storage::PushOptions options;
  if (operation.has(Argument::kOperand)) options.priority = operation.get(Argument::kOperand);
  options.ttl_ms = TtlOf(operation);
  storage::PushOutcome outcome;
  if (!operation.has(Argument::kUpload)) {
    outcome = queue.Push(operation.value, options, context.now_ms);
  } else if (context.upload != nullptr) {
    outcome = queue.Push(*context.upload, options, context.now_ms);
  } else {
    return Refuse(reply, StatusCode::kFailedPrecondition,
                  "the streamed value is not complete here; send it again");
  }
  if (context.store.blocked()) return;
  if (outcome.at_capacity) return RefuseFull(context, reply);
  reply->answer.code = outcome.code;
  reply->answer.version = outcome.version;
  reply->answer.has_version = reply->answer.has_number = outcome.code == StatusCode::kOk;
  reply->answer.number = outcome.id;
}

// Checks all items first: a malformed item must not leave half of the push behind.
bool CountItems(Bytes pushed, std::uint64_t* items, std::uint64_t* value_bytes) {
  wire::PushedItem item;
  for (*items = *value_bytes = 0; !pushed.empty(); ++*items) {
    if (*items == wire::kPushedItemsMax || !wire::TakePushedItem(&pushed, &item).ok()) return false;
    *value_bytes += item.value.size();
  }
  return true;
}

void HandlePushMany(const OperationContext& context, Reply* reply) {
  const wire::Operation& operation = context.operation;
  QueueStore& queue = context.partition.queue();
  std::uint64_t items = 0;
  std::uint64_t value_bytes = 0;
  if (!CountItems(operation.value, &items, &value_bytes)) {
    return Refuse(reply, StatusCode::kInvalidArgument,
                  "malformed list of pushed items, or more than 1,024 of them");
  }
  if (context.scratch.size() < wire::kPushManyRestBytes) {
    return Refuse(reply, StatusCode::kInvalidArgument, kNoRoom);
  }
  if (!queue.Reserve(items, value_bytes)) {
    reply->answer.code = StatusCode::kResourceExhausted;
    return;
  }
  storage::PushOptions options;
  options.ttl_ms = TtlOf(operation);
  wire::PushManyRest rest;
  std::uint64_t taken = 0;
  storage::PushOutcome outcome;
  wire::PushedItem item;
  for (Bytes left = operation.value; !left.empty(); ++taken) {
    TP_CHECK(wire::TakePushedItem(&left, &item).ok());
    options.priority = item.priority;
    outcome = queue.Push(item.value, options, context.now_ms);
    if (context.store.blocked()) {
      if (taken == 0) return;
      context.store.SkipWanted();  // The pushed items stay; the queue was full behind them.
    }
    if (outcome.code != StatusCode::kOk) break;
    if (taken == 0) rest.first_id = outcome.id;
    reply->answer.version = outcome.version;
  }
  if (taken == 0 && outcome.code != StatusCode::kOk) {
    reply->answer.code = outcome.code;
    if (outcome.at_capacity) RefuseFull(context, reply);
    return;
  }
  rest.at_capacity = outcome.at_capacity;
  wire::StorePushManyRest(rest, context.scratch.data());
  reply->answer.value = context.scratch.first(wire::kPushManyRestBytes);
  reply->answer.has_number = true;
  reply->answer.number = taken;
}

// ---- Delivering.

// Fills an answer with items.
class ItemLister {
 public:
  explicit ItemLister(MutableBytes room)
      : begin_(room.data()), at_(room.data()), end_(room.data() + room.size()) {}

  // False: no room, and the item stays where it is.
  bool Add(const QueueItem& item) {
    wire::DeliveredItem listed = HeaderOf(item);
    listed.value = item.value;
    if (item.extent != nullptr || listed.bytes() > static_cast<std::size_t>(end_ - at_)) {
      full_ = true;
      return false;
    }
    at_ = wire::AppendDeliveredItem(listed, at_);
    return true;
  }
  // Adds an item whose value is streamed; it is alone in its answer.
  bool AddStreamed(const QueueItem& item) {
    TP_CHECK(empty());
    wire::DeliveredItem listed = HeaderOf(item);
    listed.streamed = true;
    if (listed.bytes() > static_cast<std::size_t>(end_ - at_)) return false;
    at_ = wire::AppendDeliveredItem(listed, at_);
    return true;
  }

  Bytes bytes() const { return Bytes(begin_, at_); }
  bool empty() const { return at_ == begin_; }
  bool full() const { return full_; }

 private:
  static wire::DeliveredItem HeaderOf(const QueueItem& item) {
    wire::DeliveredItem listed;
    listed.id = item.id;
    listed.priority = item.priority;
    listed.deliveries = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(item.deliveries, std::numeric_limits<std::uint32_t>::max()));
    listed.value_bytes = static_cast<std::uint32_t>(item.value_bytes);
    return listed;
  }

  std::byte* const begin_;
  std::byte* at_;
  std::byte* const end_;
  bool full_ = false;
};

// `deliver` is Pop, LeasePop or Peek: (items_max, visitor) -> QueueProgress.
template <typename Deliver>
void ListItems(const OperationContext& context, Reply* reply, Deliver deliver) {
  const std::uint64_t items_max = context.operation.get(Argument::kOperand);
  if (items_max == 0) {
    return Refuse(reply, StatusCode::kInvalidArgument, "0 items cannot be asked for");
  }
  ItemLister lister(context.scratch);
  storage::QueueProgress progress =
      deliver(items_max, [&](const QueueItem& item) { return lister.Add(item); });
  if (context.store.blocked()) return;
  if (lister.empty() && lister.full()) {
    if (!context.may_stream) {
      return Refuse(
          reply, StatusCode::kOutOfRange,
          "the next item does not fit the answer and stays; ask for it by itself, or, above "
          "1 MiB, by the C++ library or kvctl");
    }
    progress = deliver(1, [&](const QueueItem& item) {
      if (!lister.AddStreamed(item)) return false;
      reply->stored = item;
      return true;
    });
    if (lister.empty() && progress.code == StatusCode::kOk) {
      return Refuse(reply, StatusCode::kInvalidArgument, kNoRoom);
    }
  }
  if (lister.empty() && !progress.more) {
    if (progress.code != StatusCode::kOk) {
      return Refuse(reply, progress.code,
                    "too many items wait for an ack, or no memory to remove one");
    }
    if (context.may_wait) {
      reply->wait_for = WaitFor::kItem;
    } else if (context.operation.has(Argument::kWaitMs)) {
      Refuse(reply, StatusCode::kDeadlineExceeded, "no item came in time");
    } else {
      reply->answer.code = StatusCode::kNotFound;
    }
    return;
  }
  reply->answer.value = lister.bytes();
  reply->answer.has_number = true;
  // Also set for a failure that ended the list: the next request reports it.
  const bool more = progress.more || lister.full() || progress.code != StatusCode::kOk;
  reply->answer.number = more ? 1 : 0;
}

// A pop of no items with a wait: kOk as soon as an item is ready. For clients that wait on several
// queues and pop from the first that has an item.
void AwaitItem(const OperationContext& context, Reply* reply) {
  QueueStore& queue = context.partition.queue();
  queue.ReleaseOverdue(context.now_ms);
  if (queue.Length().ready > 0) return;
  if (context.may_wait) {
    reply->wait_for = WaitFor::kItem;
  } else {
    Refuse(reply, StatusCode::kDeadlineExceeded, "no item came in time");
  }
}

void HandlePop(const OperationContext& context, Reply* reply) {
  if (context.operation.has(Argument::kWaitMs) && context.operation.get(Argument::kOperand) == 0) {
    return AwaitItem(context, reply);
  }
  QueueStore& queue = context.partition.queue();
  if (!context.operation.has(Argument::kTtlMs)) {
    return ListItems(context, reply, [&](std::uint64_t items_max, auto visitor) {
      return queue.Pop(items_max, context.now_ms, visitor);
    });
  }
  const storage::LeaseTerms terms{context.operation.get(Argument::kTtlMs), 0};
  if (terms.visibility_ms == 0) {
    return Refuse(reply, StatusCode::kInvalidArgument, "a lease of 0 ms");
  }
  ListItems(context, reply, [&](std::uint64_t items_max, auto visitor) {
    return queue.LeasePop(items_max, terms, context.now_ms, visitor);
  });
}

void HandlePeek(const OperationContext& context, Reply* reply) {
  ListItems(context, reply, [&](std::uint64_t items_max, auto visitor) {
    return context.partition.queue().Peek(items_max, context.now_ms, visitor);
  });
}

// ---- Ends of leases.

void ConcludeLease(StatusCode code, Reply* reply) {
  reply->answer.code = code;
  if (code == StatusCode::kFailedPrecondition) {
    Refuse(reply, code,
           "this lease of the item has ended: its time ran out, and the item is ready or with "
           "another consumer");
  }
}

void HandleAck(const OperationContext& context, Reply* reply) {
  ConcludeLease(
      context.partition.queue().Ack(context.operation.get(Argument::kOperand),
                                    context.operation.get(Argument::kCursor), context.now_ms),
      reply);
}

void HandleNack(const OperationContext& context, Reply* reply) {
  ConcludeLease(
      context.partition.queue().Nack(context.operation.get(Argument::kOperand),
                                     context.operation.get(Argument::kCursor), context.now_ms),
      reply);
}

void HandleQueueLength(const OperationContext& context, Reply* reply) {
  if (context.scratch.size() < wire::kQueueLengthsBytes) {
    return Refuse(reply, StatusCode::kInvalidArgument, kNoRoom);
  }
  const storage::QueueLength length = context.partition.queue().Length();
  wire::StoreQueueLengths({length.ready, length.leased}, context.scratch.data());
  reply->answer.value = context.scratch.first(wire::kQueueLengthsBytes);
}

constexpr HandlerEntry kQueueHandlers[] = {
    {wire::Opcode::kPush, HandlePush},
    {wire::Opcode::kPushMany, HandlePushMany},
    {wire::Opcode::kPop, HandlePop},
    {wire::Opcode::kPeek, HandlePeek},
    {wire::Opcode::kAck, HandleAck},
    {wire::Opcode::kNack, HandleNack},
    {wire::Opcode::kQueueLength, HandleQueueLength},
};

}  // namespace

std::span<const HandlerEntry> QueueHandlers() { return kQueueHandlers; }

}  // namespace tidepool::daemon
