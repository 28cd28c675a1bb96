// The way into queues: single items, and batches packed into few operations.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "client/calls/durations.h"
#include "client/calls/queue_calls.h"
#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "proto/wire/queue_ops.h"
#include "tidepool/bytes_queue.h"

namespace tidepool {
namespace {

using internal::Call;
using internal::CallRef;
using internal::Mode;
using internal::Operation;
using internal::OperationSpec;
using wire::Argument;
using wire::Opcode;

Result<ItemId> TakeId(CallRef call) {
  const Operation& operation = Only(call);
  if (operation.code != StatusCode::kOk) return internal::PushFailure(call, operation);
  return ItemId{internal::ItemIdOf(operation, operation.number)};
}

// `priority` of a queue by arrival is 0 and does not travel.
OperationSpec PushSpec(const Namespace& space, const PrioritizedValue& item,
                       const PushOptions& options, bool waits) {
  OperationSpec spec;
  spec.lane = space.space()->lane();
  spec.opcode = Opcode::kPush;
  spec.receipt = options.receipt;
  spec.value = item.value;
  if (options.ttl.has_value()) spec.Add(Argument::kTtlMs, internal::ToTtlMs(*options.ttl));
  if (item.priority != 0) spec.Add(Argument::kOperand, item.priority);
  spec.waits = waits;
  spec.timeout = waits ? std::min(options.wait, kWaitForEver) : options.timeout;
  return spec;
}

CallRef PushOne(const Namespace& space, const PrioritizedValue& item, const PushOptions& options) {
  const internal::PushNotice notice(space);
  CallRef call =
      internal::StartOne(*space.space(), PushSpec(space, item, options, false), Mode::kSync);
  // Asked once before it waits, as Pop is.
  if (!internal::IsAtCapacity(Only(call)) || options.wait.count() <= 0) return call;
  return internal::StartOne(*space.space(), PushSpec(space, item, options, true), Mode::kSync);
}

Future<ItemId> PushOneAsync(const Namespace& space, const PrioritizedValue& item,
                            const PushOptions& options) {
  const internal::PushNotice notice(space);
  return internal::Access::FutureOf(
      internal::StartOne(*space.space(), PushSpec(space, item, options, options.wait.count() > 0),
                         Mode::kAsync),
      &TakeId);
}

// ---- Batches.

// Items that travel in one operation: a list, or a single item that is too large for a list.
struct Piece {
  std::size_t first = 0;
  std::size_t count = 0;
  std::size_t bytes = 0;  // Bytes of the list.
  bool alone = false;
};

std::size_t ListedBytes(const PrioritizedValue& item) {
  return wire::kPushedItemHeaderBytes + item.value.size();
}

std::vector<Piece> PiecesOf(std::span<const PrioritizedValue> items) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::size_t bytes = ListedBytes(items[i]);
    if (bytes > limits::kUnstreamedValueBytesMax) {
      pieces.push_back({i, 1, items[i].value.size(), true});
      continue;
    }
    if (pieces.empty() || pieces.back().alone || pieces.back().count == wire::kPushedItemsMax ||
        pieces.back().bytes + bytes > limits::kUnstreamedValueBytesMax) {
      pieces.push_back({i, 0, 0, false});
    }
    ++pieces.back().count;
    pieces.back().bytes += bytes;
  }
  return pieces;
}

std::string ListOf(std::span<const PrioritizedValue> items, std::size_t bytes) {
  std::string list(bytes, '\0');
  auto* to = reinterpret_cast<std::byte*>(list.data());
  for (const PrioritizedValue& item : items) {
    to = wire::AppendPushedItem({item.priority, AsBytes(item.value)}, to);
  }
  return list;
}

void SetPiece(const Piece& piece, std::span<const PrioritizedValue> items,
              const PushOptions& options, Mode mode, Call* call, Operation* operation) {
  const PrioritizedValue& first = items[piece.first];
  operation->opcode = piece.alone ? Opcode::kPush : Opcode::kPushMany;
  if (options.ttl.has_value()) {
    operation->AddArgument(Argument::kTtlMs, internal::ToTtlMs(*options.ttl));
  }
  if (!piece.alone) {
    std::byte* const list = call->Reserve(piece.bytes);
    std::byte* to = list;
    for (const PrioritizedValue& item : items.subspan(piece.first, piece.count)) {
      to = wire::AppendPushedItem({item.priority, AsBytes(item.value)}, to);
    }
    operation->value = list;
    operation->value_bytes = static_cast<std::uint32_t>(piece.bytes);
    return;
  }
  if (first.value.size() > limits::kValueBytesMax) {
    return call->Refuse(operation, internal::CheckSizes({}, first.value.size(), false));
  }
  if (first.priority != 0) operation->AddArgument(Argument::kOperand, first.priority);
  operation->value = mode == Mode::kAsync ? call->Copy(first.value) : AsBytes(first.value).data();
  operation->value_bytes = static_cast<std::uint32_t>(first.value.size());
  operation->streamed = first.value.size() > limits::kUnstreamedValueBytesMax;
}

// All pieces at once.
CallRef StartPieces(const Namespace& handle, std::span<const PrioritizedValue> items,
                    const PushOptions& options, Mode mode) {
  const internal::Space& space = *handle.space();
  const internal::PushNotice notice(handle);
  const std::vector<Piece> pieces = PiecesOf(items);
  std::size_t copied = 0;
  std::size_t bytes = 0;
  for (const Piece& piece : pieces) {
    bytes += piece.bytes;
    if (!piece.alone || (mode == Mode::kAsync && piece.bytes <= limits::kValueBytesMax)) {
      copied += piece.bytes;
    }
  }
  Call* call = Call::Make(pieces.size(), copied);
  call->set_receipt(options.receipt);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    Operation& operation = call->operations()[i];
    operation.queue = internal::QueueOfLane(space.state(), space.lane());
    SetPiece(pieces[i], items, options, mode, call, &operation);
  }
  return internal::StartCall(space, call, mode, options.timeout, bytes);
}

// Adds the outcome of an operation of `count` items. Returns the number of accepted items.
std::size_t AddOutcome(const CallRef& call, const Operation& operation, std::size_t count,
                       PushBatch* batch, bool* at_capacity) {
  const internal::PushedItems pushed = internal::PushedBy(call, operation, count);
  *at_capacity = pushed.at_capacity;
  internal::Access::AddPushed(batch, pushed.first_id, pushed.taken, pushed.step);
  if (pushed.taken < count) internal::Access::AddFailed(batch, count - pushed.taken, pushed.why);
  return pushed.taken;
}

Result<PushBatch> TakePushed(CallRef call) {
  PushBatch batch;
  bool at_capacity = false;
  for (const Operation& operation : call.get()->operations()) {
    AddOutcome(call, operation, internal::ItemsIn(operation), &batch, &at_capacity);
  }
  return batch;
}

// Pushes a piece. Items refused for capacity are pushed again until the time to wait is over.
void PushPiece(const Namespace& space, std::span<const PrioritizedValue> items,
               const PushOptions& options, PushBatch* batch) {
  const internal::PushNotice notice(space);
  const auto wait_ms = static_cast<std::uint64_t>(std::min(options.wait, kWaitForEver).count());
  const Deadline until = Deadline::AfterMs(wait_ms);
  for (bool waits = false;; waits = true) {
    const std::vector<Piece> pieces = PiecesOf(items);
    TP_DCHECK(pieces.size() == 1);
    const std::string list = pieces[0].alone ? std::string() : ListOf(items, pieces[0].bytes);
    OperationSpec spec = PushSpec(space, items[0], options, waits);
    if (!pieces[0].alone) {
      spec = PushSpec(space, {0, list}, options, waits);
      spec.opcode = Opcode::kPushMany;
    }
    if (waits) {
      spec.timeout =
          std::chrono::milliseconds(std::max<std::uint64_t>(1, until.LeftNs() / 1'000'000));
    }
    const CallRef call = internal::StartOne(*space.space(), spec, Mode::kSync);
    bool at_capacity = false;
    PushBatch outcome;
    const std::size_t taken = AddOutcome(call, Only(call), items.size(), &outcome, &at_capacity);
    // The first request learns that the queue is full. Only a request that waited learns that it
    // stayed full.
    if (!at_capacity || (waits && until.Passed())) {
      return internal::Access::Append(batch, std::move(outcome));
    }
    if (taken > 0) internal::Access::AddPushed(batch, outcome.id(0), taken, space.partitions());
    items = items.subspan(taken);
  }
}

PushBatch PushAll(const Namespace& space, std::span<const PrioritizedValue> items,
                  const PushOptions& options) {
  if (options.wait.count() <= 0) {
    return *TakePushed(StartPieces(space, items, options, Mode::kSync));
  }
  PushBatch batch;
  for (const Piece& piece : PiecesOf(items)) {
    PushPiece(space, items.subspan(piece.first, piece.count), options, &batch);
  }
  return batch;
}

std::vector<PrioritizedValue> WithoutPriority(std::span<const std::string_view> values) {
  std::vector<PrioritizedValue> items;
  items.reserve(values.size());
  for (const std::string_view value : values) items.push_back({0, value});
  return items;
}

}  // namespace

// ---- PushBatch.

std::size_t PushBatch::pushed() const {
  std::size_t failed = 0;
  for (const Failure& failure : failures_) failed += failure.count;
  return ids_.size() - failed;
}

ItemId PushBatch::id(std::size_t i) const {
  TP_CHECK(i < size());
  return ids_[i];
}

Status PushBatch::status(std::size_t i) const {
  TP_CHECK(i < size());
  const auto after =
      std::upper_bound(failures_.begin(), failures_.end(), i,
                       [](std::size_t at, const Failure& failure) { return at < failure.first; });
  if (after == failures_.begin()) return {};
  const Failure& failure = *std::prev(after);
  return i < failure.first + failure.count ? failure.why : OkStatus();
}

Status PushBatch::FirstFailure() const {
  if (failures_.empty()) return {};
  const Failure& failure = failures_.front();
  return Status(failure.why.code(),
                "item " + std::to_string(failure.first) + " of " + std::to_string(size()) + ": " +
                    std::string(failure.why.what()),
                std::string(failure.why.remedy()));
}

void PushBatch::AddPushed(ItemId first, std::size_t count, std::uint64_t step) {
  for (std::size_t i = 0; i < count; ++i) ids_.push_back(first + i * step);
}

void PushBatch::AddFailed(std::size_t count, const Status& why) {
  failures_.push_back({ids_.size(), count, why});
  ids_.resize(ids_.size() + count, 0);
}

void PushBatch::Append(PushBatch other) {
  for (Failure& failure : other.failures_) {
    failure.first += ids_.size();
    failures_.push_back(std::move(failure));
  }
  ids_.insert(ids_.end(), other.ids_.begin(), other.ids_.end());
}

// ---- Handles.

Result<ItemId> BytesQueue::Push(std::string_view value, const PushOptions& options) const {
  return TakeId(PushOne(space(), {0, value}, options));
}
Future<ItemId> BytesQueue::PushAsync(std::string_view value, const PushOptions& options) const {
  return PushOneAsync(space(), {0, value}, options);
}
PushBatch BytesQueue::MultiPush(std::span<const std::string_view> values,
                                const PushOptions& options) const {
  return PushAll(space(), WithoutPriority(values), options);
}
Future<PushBatch> BytesQueue::MultiPushAsync(std::span<const std::string_view> values,
                                             const PushOptions& options) const {
  return internal::Access::FutureOf(
      StartPieces(space(), WithoutPriority(values), options, Mode::kAsync), &TakePushed);
}

Result<ItemId> BytesPriorityQueue::Push(Priority priority, std::string_view value,
                                        const PushOptions& options) const {
  return TakeId(PushOne(space(), {priority, value}, options));
}
Future<ItemId> BytesPriorityQueue::PushAsync(Priority priority, std::string_view value,
                                             const PushOptions& options) const {
  return PushOneAsync(space(), {priority, value}, options);
}
PushBatch BytesPriorityQueue::MultiPush(std::span<const PrioritizedValue> items,
                                        const PushOptions& options) const {
  return PushAll(space(), items, options);
}
Future<PushBatch> BytesPriorityQueue::MultiPushAsync(std::span<const PrioritizedValue> items,
                                                     const PushOptions& options) const {
  return internal::Access::FutureOf(StartPieces(space(), items, options, Mode::kAsync),
                                    &TakePushed);
}

}  // namespace tidepool
