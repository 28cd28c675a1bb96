// Requests and answers of queues: items on their way in and on their way out.
//
//   client/api/bytes_queue => Push, PushMany, Pop, Peek => daemon/ops/queue_ops
//
//   Push      value (or upload): the item; operand: its priority
//             answer: number: its id. kResourceExhausted: with a number, the queue is full: its
//             capacity; without a number, memory is full.
//   PushMany  value: pushed items in sequence
//             answer: number: count of accepted items, from the front; value: PushManyRest
//   Pop,Peek  operand: items at most; Pop with visibility: they are leased, not removed
//             answer: value: items in sequence; number: 1 if it ended at its own bounds and more
//             items may follow. An item whose value does not fit is alone in its answer: its value
//             is streamed (the number is that value's size then).
//             kNotFound: the queue is empty.
//   An operation that waits in vain ends with kDeadlineExceeded.
//   Ack,Nack  operand: the item's id; cursor: the count of its delivery
//   QueueLength  answer: value: QueueLengths
#pragma once

#include <cstdint>

#include "proto/base/bytes.h"
#include "proto/base/limits.h"
#include "proto/base/result.h"
#include "proto/base/short_copy.h"

namespace tidepool::wire {

// Made only when it is needed: a Status with a text allocates, which costs as much as an item.
inline Status MalformedItems() {
  return Status(StatusCode::kInvalidArgument, "malformed list of items");
}

// An item of PushMany.
struct PushedItem {
  std::uint64_t priority = 0;  // Least first; without meaning to kind queue.
  Bytes value;
};

// {priority:8, value bytes:4} before each value.
inline constexpr std::size_t kPushedItemHeaderBytes = 12;
// Items of a PushMany: some 200 us of work at most.
inline constexpr std::size_t kPushedItemsMax = 1'024;

// `to` has room for kPushedItemHeaderBytes and the value. Returns the end.
inline std::byte* AppendPushedItem(const PushedItem& item, std::byte* to) {
  StoreUnaligned(to, item.priority);
  StoreUnaligned(to + 8, static_cast<std::uint32_t>(item.value.size()));
  CopyShort(to + kPushedItemHeaderBytes, item.value.data(), item.value.size());
  return to + kPushedItemHeaderBytes + item.value.size();
}

// Takes the first item off `rest`. Returns: kOk, kInvalidArgument (malformed).
inline Status TakePushedItem(Bytes* rest, PushedItem* item) {
  if (rest->size() < kPushedItemHeaderBytes) return MalformedItems();
  item->priority = LoadUnaligned<std::uint64_t>(rest->data());
  const auto bytes = LoadUnaligned<std::uint32_t>(rest->data() + 8);
  if (rest->size() - kPushedItemHeaderBytes < bytes) return MalformedItems();
  item->value = rest->subspan(kPushedItemHeaderBytes, bytes);
  *rest = rest->subspan(kPushedItemHeaderBytes + bytes);
  return OkStatus();
}

// Answer of a PushMany that took some or all of its items, whose ids are consecutive.
struct PushManyRest {
  std::uint64_t first_id = 0;
  bool at_capacity = false;  // Why the rest was refused: else for memory.
};
inline constexpr std::size_t kPushManyRestBytes = 9;

inline void StorePushManyRest(const PushManyRest& from, std::byte* to) {
  StoreUnaligned(to, from.first_id);
  to[8] = static_cast<std::byte>(from.at_capacity);
}
// Returns: kInvalidArgument.
inline Result<PushManyRest> LoadPushManyRest(Bytes from) {
  if (from.size() != kPushManyRestBytes || std::to_integer<unsigned>(from[8]) > 1) {
    return Status(StatusCode::kInvalidArgument, "malformed answer to pushed items");
  }
  return PushManyRest{LoadUnaligned<std::uint64_t>(from.data()), from[8] != std::byte{0}};
}

// An item as it is delivered.
struct DeliveredItem {
  std::uint64_t id = 0;
  std::uint64_t priority = 0;
  // Under a lease, this time included; 0: never. An ack names it.
  std::uint32_t deliveries = 0;
  bool streamed = false;          // Its value follows in parts, and is not in the list.
  std::uint32_t value_bytes = 0;  // Size of the whole value.
  Bytes value;

  std::size_t bytes() const;
};

// {id:8, priority:8, deliveries:4, value bytes and, as the highest bit, streamed:4}
inline constexpr std::size_t kDeliveredItemHeaderBytes = 24;
inline constexpr std::uint32_t kDeliveredStreamedBit = 1u << 31;
static_assert(limits::kValueBytesMax < kDeliveredStreamedBit);

inline std::size_t DeliveredItem::bytes() const {
  return kDeliveredItemHeaderBytes + (streamed ? 0 : value.size());
}

// `to` has room for item.bytes(). Returns the end.
inline std::byte* AppendDeliveredItem(const DeliveredItem& item, std::byte* to) {
  StoreUnaligned(to, item.id);
  StoreUnaligned(to + 8, item.priority);
  StoreUnaligned(to + 16, item.deliveries);
  StoreUnaligned(to + 20, item.value_bytes | (item.streamed ? kDeliveredStreamedBit : 0));
  to += kDeliveredItemHeaderBytes;
  if (item.streamed) return to;
  CopyShort(to, item.value.data(), item.value.size());
  return to + item.value.size();
}

// Takes the first item off `rest`. Returns: kOk, kInvalidArgument (malformed).
inline Status TakeDeliveredItem(Bytes* rest, DeliveredItem* item) {
  if (rest->size() < kDeliveredItemHeaderBytes) return MalformedItems();
  item->id = LoadUnaligned<std::uint64_t>(rest->data());
  item->priority = LoadUnaligned<std::uint64_t>(rest->data() + 8);
  item->deliveries = LoadUnaligned<std::uint32_t>(rest->data() + 16);
  const auto bytes = LoadUnaligned<std::uint32_t>(rest->data() + 20);
  item->streamed = (bytes & kDeliveredStreamedBit) != 0;
  item->value_bytes = bytes & ~kDeliveredStreamedBit;
  const std::size_t inline_bytes = item->streamed ? 0 : item->value_bytes;
  if (item->value_bytes > limits::kValueBytesMax ||
      rest->size() - kDeliveredItemHeaderBytes < inline_bytes) {
    return MalformedItems();
  }
  item->value = rest->subspan(kDeliveredItemHeaderBytes, inline_bytes);
  *rest = rest->subspan(kDeliveredItemHeaderBytes + inline_bytes);
  return OkStatus();
}

// Number of items of a queue now. Ready items include expired items that were not met yet.
struct QueueLengths {
  std::uint64_t ready = 0;
  std::uint64_t leased = 0;
};
inline constexpr std::size_t kQueueLengthsBytes = 16;

inline void StoreQueueLengths(const QueueLengths& from, std::byte* to) {
  StoreUnaligned(to, from.ready);
  StoreUnaligned(to + 8, from.leased);
}
// Returns: kInvalidArgument.
inline Result<QueueLengths> LoadQueueLengths(Bytes from) {
  if (from.size() != kQueueLengthsBytes) {
    return Status(StatusCode::kInvalidArgument, "malformed lengths of a queue");
  }
  return QueueLengths{LoadUnaligned<std::uint64_t>(from.data()),
                      LoadUnaligned<std::uint64_t>(from.data() + 8)};
}

}  // namespace tidepool::wire
