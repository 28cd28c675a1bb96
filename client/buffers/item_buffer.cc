#include "client/buffers/item_buffer.h"

#include <utility>

#include "client/calls/queue_calls.h"
#include "proto/base/check.h"
#include "proto/wire/queue_ops.h"

namespace tidepool::internal {

using wire::Argument;
using wire::Opcode;

// A buffer of the largest permitted number of items is one list, unless the items are large.
static_assert(limits::kFrameOperationsMax <= wire::kPushedItemsMax);

void ItemBuffer::Add(std::uint64_t priority, std::optional<std::uint64_t> ttl_ms,
                     std::string_view value) {
  if (busy()) [[unlikely]] {
    Defer(
        [this, priority, ttl_ms, value = std::string(value)] { AddNow(priority, ttl_ms, value); });
    return;
  }
  const Busy busy(this);
  AddNow(priority, ttl_ms, value);
}

void ItemBuffer::AddNow(std::uint64_t priority, std::optional<std::uint64_t> ttl_ms,
                        std::string_view value) {
  ++counts_.operations;
  ++pending_;
  const std::size_t bytes = wire::kPushedItemHeaderBytes + value.size();
  if (bytes > limits::kUnstreamedValueBytesMax) [[unlikely]] {
    return AddAlone(priority, ttl_ms, value);
  }
  if (bytes_.size() + bytes > options_.bytes_max) Send();
  if (lists_.empty() || lists_.back().ttl_ms != ttl_ms ||
      lists_.back().bytes + bytes > limits::kUnstreamedValueBytesMax) {
    lists_.push_back({ttl_ms, bytes_.size(), 0});
  }
  const std::size_t at = bytes_.size();
  bytes_.resize(at + bytes);
  wire::AppendPushedItem({priority, AsBytes(value)},
                         reinterpret_cast<std::byte*>(bytes_.data()) + at);
  lists_.back().bytes += bytes;
  if (++operations_ == 1) since_ns_ = space_->engine()->Now();
  if (operations_ >= options_.operations_max) Send();
  if (counts_.operations % kOperationsPerLook == 0) SendOld();
}

// Sends an item that is too large for a list as its own call, behind the collected items.
void ItemBuffer::AddAlone(std::uint64_t priority, std::optional<std::uint64_t> ttl_ms,
                          std::string_view value) {
  Send();
  TakeIn(&flying_, options_.buffers_in_flight - 1);
  OperationSpec spec;
  spec.opcode = Opcode::kPush;
  spec.lane = space_->lane();
  spec.value = value;
  if (ttl_ms.has_value()) spec.Add(Argument::kTtlMs, *ttl_ms);
  if (priority != 0) spec.Add(Argument::kOperand, priority);
  spec.timeout = options_.timeout;
  const PushNotice notice(*space_);
  flying_.push_back(StartOne(*space_, spec, Mode::kAsync));
  ++counts_.buffers;
}

void ItemBuffer::Send() {
  if (operations_ == 0) return;
  const std::size_t bytes = bytes_.size();
  Call* call = Call::Make(lists_.size(), bytes);
  for (std::size_t i = 0; i < lists_.size(); ++i) {
    const List& list = lists_[i];
    Operation& operation = call->operations()[i];
    operation.queue = QueueOfLane(space_->state(), space_->lane());
    operation.opcode = Opcode::kPushMany;
    if (list.ttl_ms.has_value()) operation.AddArgument(Argument::kTtlMs, *list.ttl_ms);
    operation.value = call->Copy(std::string_view(bytes_).substr(list.begin, list.bytes));
    operation.value_bytes = static_cast<std::uint32_t>(list.bytes);
  }
  lists_.clear();
  bytes_.clear();
  operations_ = 0;
  call->urgent = true;
  // Takes answers in before the next call goes, so that the daemon always has work.
  TakeIn(&flying_, options_.buffers_in_flight - 1);
  const PushNotice notice(*space_);
  flying_.push_back(StartCall(*space_, call, Mode::kAsync, options_.timeout, bytes));
  ++counts_.buffers;
}

void ItemBuffer::SendOld() {
  if (options_.age_max.count() == 0 || operations_ == 0) return;
  if (IsOld(since_ns_, space_->engine()->Now())) Send();
}

void ItemBuffer::TakeInAll(bool waits) {
  if (flying_.empty()) return;
  if (!waits) (void)flying_.front().Wait(CallRef::TimePoint());
  TakeIn(&flying_, waits ? 0 : ~std::size_t{0});
}

void ItemBuffer::Settle(const CallRef& call) {
  for (const Operation& operation : call.get()->operations()) {
    const std::size_t count = ItemsIn(operation);
    pending_ -= count;
    const PushedItems pushed = PushedBy(call, operation, count);
    if (pushed.taken < count) NoteRest(operation, pushed.taken, count, pushed.why);
    settled_ += count;
  }
}

// A streamed value belongs to its call, which is about to go. The failure names only the number.
void ItemBuffer::NoteRest(const Operation& operation, std::size_t taken, std::size_t count,
                          const Status& why) {
  if (operation.opcode != Opcode::kPushMany) {
    // An item may travel alone without being streamed: it fits a frame, but not with a list's
    // header.
    const bool kept = operation.value_bytes <= limits::kUnstreamedValueBytesMax;
    const Bytes value(operation.value, kept ? operation.value_bytes : 0);
    return Note({std::string(AsText(value)), why, settled_});
  }
  Bytes list(operation.value, operation.value_bytes);
  wire::PushedItem item;
  for (std::size_t i = 0; i < count; ++i) {
    TP_CHECK(wire::TakePushedItem(&list, &item).ok());
    if (i < taken) continue;
    if (!HasRoomForFailures()) return NoteUnnamed(count - i, why);
    Note({std::string(AsText(item.value)), why, settled_ + i});
  }
}

}  // namespace tidepool::internal
