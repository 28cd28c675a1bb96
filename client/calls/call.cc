#include "client/calls/call.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "client/calls/durations.h"
#include "client/engine/pack_pieces.h"
#include "client/engine/partition_queue.h"
#include "proto/base/check.h"

namespace tidepool::internal {
namespace {

// Results of a batch are packed into chunks. The first chunk has room for 128 B per operation.
constexpr std::size_t kChunkBytesMin = 4 * 1024;
constexpr std::size_t kChunkBytesMax = 256 * 1024;
constexpr std::size_t kResultBytesGuess = 128;

}  // namespace

Operation::Operation() = default;
Operation::~Operation() = default;

void Operation::AddArgument(wire::Argument argument, std::uint64_t word) {
  const auto count = static_cast<std::size_t>(__builtin_popcount(arguments));
  TP_DCHECK(count < kOperationWordsMax);
  TP_DCHECK(arguments < wire::MaskOf(argument));
  words[count] = word;
  arguments |= wire::MaskOf(argument);
}

void Operation::AddUploadArgument(std::uint64_t upload) {
  const std::size_t at = WordsBefore(wire::Argument::kUpload);
  TP_DCHECK(at + (waits() ? 2 : 1) <= kOperationWordsMax);
  if (waits()) words[at + 1] = words[at];
  words[at] = upload;
  arguments |= wire::MaskOf(wire::Argument::kUpload);
}

void Operation::RemoveUploadArgument() {
  const std::size_t at = WordsBefore(wire::Argument::kUpload);
  if (waits()) words[at] = words[at + 1];
  arguments &= static_cast<std::uint8_t>(~wire::MaskOf(wire::Argument::kUpload));
}

void Operation::ToWire(wire::Operation* out) const {
  out->opcode = opcode;
  out->condition = condition;
  out->value_kind = value_kind;
  out->arguments = arguments;
  out->key = {key, key_bytes};
  out->value = streamed ? Bytes() : Bytes(value, value_bytes);
  std::size_t at = 0;
  for (unsigned mask = arguments; mask != 0; mask &= mask - 1) {
    out->words[static_cast<std::size_t>(__builtin_ctz(mask))] = words[at++];
  }
}

void Operation::SetWaitSlice(std::uint64_t now_ns) {
  const std::uint64_t until_ns = call->wait_until_ns;
  // Rounded up: an answer that came before the time was up would be asked for again.
  const std::uint64_t left_ms = until_ns > now_ns ? (until_ns - now_ns + 999'999) / 1'000'000 : 0;
  words[__builtin_popcount(arguments) - 1] =
      std::min(left_ms, streamed ? kUploadWaitSliceMs : kWaitSliceMs);
}

Call* Call::Make(std::size_t operation_count, std::size_t copy_bytes) {
  static_assert(sizeof(Call) % alignof(Operation) == 0);
  const std::size_t operations_bytes = operation_count * sizeof(Operation);
  void* block = ::operator new(sizeof(Call) + operations_bytes + copy_bytes);
  Call* call = new (block) Call;
  auto* behind = static_cast<std::byte*>(block) + sizeof(Call);
  call->operations_ = reinterpret_cast<Operation*>(behind);
  call->operation_count_ = operation_count;
  call->left = static_cast<std::uint32_t>(operation_count);
  for (std::size_t i = 0; i < operation_count; ++i) {
    (new (call->operations_ + i) Operation)->call = call;
  }
  call->copy_at_ = behind + operations_bytes;
  call->copy_end_ = call->copy_at_ + copy_bytes;
  return call;
}

Call::~Call() { std::destroy_n(operations_, operation_count_); }

void Call::Release() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  this->~Call();
  ::operator delete(this);
}

const std::byte* Call::Copy(std::string_view bytes) {
  std::byte* to = Reserve(bytes.size());
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  return to;
}

std::byte* Call::Reserve(std::size_t bytes) {
  TP_DCHECK(bytes <= static_cast<std::size_t>(copy_end_ - copy_at_));
  copy_at_ += bytes;
  return copy_at_ - bytes;
}

void Call::RecordReceipt(const Operation& operation, const wire::CheckpointStamp& checkpoint) {
  if (!operation.mutates()) return;
  using Level = wire::ReceiptLevel;
  const std::string& durability = operation.queue->space->options.durability;
  const Level level = durability == "sync"    ? Level::kDevice
                      : durability == "async" ? Level::kNextCheckpoint
                                              : Level::kMemory;
  receipt_.Add({level, checkpoint});
}

void Call::TellReceipt() const {
  if (!wants_receipt()) return;
  receipt_to_->level = static_cast<Receipt::Level>(receipt_.level);
  receipt_to_->answered_at = FromWallMs(receipt_.checkpoint.at_ms);
  receipt_to_->durable_at = FromWallMs(receipt_.checkpoint.durable_at_ms);
}
static_assert(static_cast<int>(Receipt::Level::kDevice) ==
              static_cast<int>(wire::ReceiptLevel::kDevice));

void Call::SetResult(Operation& operation, Bytes bytes) {
  if (operation_count_ == 1) {
    single_.assign(AsText(bytes));
    operation.result = single_;
    return;
  }
  if (bytes.empty()) return;
  if (chunks_.empty() || chunks_.back().size - chunks_.back().used < bytes.size()) {
    const std::size_t guess =
        chunks_.empty() ? operation_count_ * kResultBytesGuess : chunks_.back().size * 2;
    const std::size_t size =
        std::max(std::clamp(guess, kChunkBytesMin, kChunkBytesMax), bytes.size());
    // Not value-initialized: a chunk is written before it is read.
    chunks_.push_back({std::unique_ptr<std::byte[]>(new std::byte[size]), size, 0});
  }
  Chunk& chunk = chunks_.back();
  std::byte* to = chunk.bytes.get() + chunk.used;
  std::memcpy(to, bytes.data(), bytes.size());
  chunk.used += bytes.size();
  operation.result = AsText({to, bytes.size()});
}

void Call::SetFailure(const Operation& operation, Status status) {
  if (operation.is_pack()) {
    bool noted = false;
    const Operation* whole = &operation;
    while (whole->piece_of != nullptr) whole = whole->piece_of->whole;
    for (PackFailure& failure : pack_failures_) {
      if (failure.pack != IndexOf(*whole) || !failure.why.ok()) continue;
      failure.why = status;
      noted = true;
    }
    if (!noted) AddPackFailure(operation, 0, operation.pack_count, std::move(status));
    return;
  }
  failures_.insert_or_assign(IndexOf(operation), std::move(status));
}

void Operation::FillPack(PartitionQueue* to, const wire::Pack& pack, const std::byte* bytes) {
  queue = to;
  opcode = wire::Opcode::kPut;  // Stands for any change; the pack has the opcodes.
  value = bytes;
  value_bytes = static_cast<std::uint32_t>(pack.bytes().size());
  pack_count = static_cast<std::uint16_t>(pack.count());
  pack_uniform = pack.uniform();
}

void Call::AddPackFailure(const Operation& pack, std::uint32_t first, std::uint32_t count,
                          Status why) {
  if (const PackPiece* piece = pack.piece_of; piece != nullptr) {
    for (std::uint32_t i = 0; i < count; ++i) {
      AddPackFailure(*piece->whole, piece->places[first + i], 1, why);
    }
    return;
  }
  pack_failures_.push_back({static_cast<std::uint32_t>(IndexOf(pack)),
                            static_cast<std::uint16_t>(first), static_cast<std::uint16_t>(count),
                            std::move(why)});
}

void Call::SortPackFailures() {
  std::sort(pack_failures_.begin(), pack_failures_.end(),
            [](const PackFailure& a, const PackFailure& b) {
              return std::pair(a.pack, a.first) < std::pair(b.pack, b.first);
            });
}

void Call::EndUnstarted(Operation* operation, StatusCode code) {
  operation->state = Operation::State::kEnded;
  operation->code = code;
  ++refused;
  --left;
}

void Call::Refuse(Operation* operation, Status why) {
  EndUnstarted(operation, why.code());
  SetFailure(*operation, std::move(why));
}

Status NoSuchKey(std::string_view space_name) {
  return Status(StatusCode::kNotFound,
                "no such key in namespace '" + std::string(space_name) + "'");
}

Status Call::StatusOf(const Operation& operation) const {
  if (operation.code == StatusCode::kOk) return {};
  const auto found = failures_.find(IndexOf(operation));
  if (found != failures_.end()) return found->second;
  const std::string where = " '" + std::string(space_name) + "'";
  switch (operation.code) {
    case StatusCode::kNotFound:
      return NoSuchKey(space_name);
    case StatusCode::kAlreadyExists:
      return Status(operation.code, "the key exists already in namespace" + where);
    case StatusCode::kFailedPrecondition:
      return Status(operation.code, "the record has another version or value in namespace" + where);
    case StatusCode::kResourceExhausted:
      return Status(operation.code, "the memory of the key's owner is full, namespace" + where,
                    "delete records, or start the daemons with more --memory");
    default:
      return Status(operation.code, "operation on namespace" + where);
  }
}

void Call::SetSingleResult(std::string value) {
  TP_DCHECK(operation_count_ == 1);
  single_ = std::move(value);
  operations_[0].result = single_;
}

std::string Call::TakeSingleResult() {
  TP_DCHECK(operation_count_ == 1);
  if (operations_[0].large_result != nullptr) return std::move(*operations_[0].large_result);
  return std::move(single_);
}

}  // namespace tidepool::internal
