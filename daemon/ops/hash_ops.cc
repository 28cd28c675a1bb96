#include "daemon/ops/hash_ops.h"

#include <absl/container/inlined_vector.h>

#include <cstring>

#include "daemon/ops/listed_record.h"
#include "daemon/ops/ttl_argument.h"
#include "proto/base/check.h"
#include "proto/wire/record_list.h"
#include "proto/wire/reply_room.h"

namespace tidepool::daemon {
namespace {

using storage::HashOutcome;
using storage::HashStore;
using wire::Argument;

std::uint8_t FlagsOf(wire::ValueKind kind) {
  switch (kind) {
    case wire::ValueKind::kBytes:
      return 0;
    case wire::ValueKind::kI64:
      return storage::kRecordI64;
    case wire::ValueKind::kF64:
      return storage::kRecordF64;
  }
  return 0;
}

// Copies the fields that all outcomes have: code and version.
void Conclude(const HashOutcome& outcome, Reply* reply) {
  reply->answer.code = outcome.code;
  reply->answer.version = outcome.version;
  reply->answer.has_version = outcome.version != Lsn();
}

void ConcludeWithNumber(const HashOutcome& outcome, std::uint64_t number, Reply* reply) {
  Conclude(outcome, reply);
  reply->answer.has_number = outcome.code == StatusCode::kOk;
  reply->answer.number = number;
}

void ConcludeWithValue(const HashOutcome& outcome, Reply* reply) {
  Conclude(outcome, reply);
  if (outcome.code != StatusCode::kOk) return;
  reply->answer.value_kind = ValueKindOf(outcome.value_flags);
  reply->stored = outcome;
}

void Explain(Reply* reply, StatusCode code, std::string_view text) {
  if (reply->answer.code == code) reply->answer.value = AsBytes(text);
}

void HandleGet(const OperationContext& context, Reply* reply) {
  HashStore& store = context.partition.hash();
  ConcludeWithValue(store.Get(context.operation.key, context.hash, context.now_ms), reply);
}

void HandlePut(const OperationContext& context, Reply* reply) {
  const wire::Operation& operation = context.operation;
  storage::PutOptions options;
  options.condition = static_cast<storage::PutCondition>(operation.condition);
  options.value_flags = FlagsOf(operation.value_kind);
  options.if_version = Lsn(operation.get(Argument::kVersion));
  options.ttl_ms = TtlOf(operation);
  HashStore& store = context.partition.hash();
  if (!operation.has(Argument::kUpload)) {
    Conclude(store.Put(operation.key, context.hash, operation.value, options, context.now_ms),
             reply);
  } else if (context.upload != nullptr) {
    Conclude(store.Put(operation.key, context.hash, *context.upload, options, context.now_ms),
             reply);
  } else {
    reply->answer.code = StatusCode::kFailedPrecondition;
    reply->answer.value = AsBytes("the streamed value is not complete here; send it again");
  }
  Explain(reply, StatusCode::kInvalidArgument, "a counter has a value of 8 bytes");
}
static_assert(static_cast<int>(wire::PutCondition::kIfVersion) ==
              static_cast<int>(storage::PutCondition::kIfVersion));

void HandleDelete(const OperationContext& context, Reply* reply) {
  const wire::Operation& operation = context.operation;
  const Lsn if_version(operation.has(Argument::kVersion) ? operation.get(Argument::kVersion) : 0);
  Conclude(context.partition.hash().Delete(operation.key, context.hash, if_version, context.now_ms),
           reply);
}

void HandleContains(const OperationContext& context, Reply* reply) {
  Conclude(context.partition.hash().Contains(context.operation.key, context.hash, context.now_ms),
           reply);
}

void HandleTake(const OperationContext& context, Reply* reply) {
  HashStore& store = context.partition.hash();
  if (context.taken_bytes_max < limits::kValueBytesMax) {
    const HashOutcome present = store.Get(context.operation.key, context.hash, context.now_ms);
    if (present.code == StatusCode::kOk && present.value_bytes > context.taken_bytes_max) {
      return Refuse(reply, StatusCode::kOutOfRange,
                    "the value does not fit the answer and is left where it is; take it by itself, "
                    "or one above 1 MiB over gRPC with ReadValue and a delete of its version");
    }
  }
  ConcludeWithValue(store.Take(context.operation.key, context.hash, context.now_ms), reply);
}

storage::UpdateKind UpdateKindOf(wire::Opcode opcode) {
  switch (opcode) {
    case wire::Opcode::kFetchAnd:
      return storage::UpdateKind::kAnd;
    case wire::Opcode::kFetchOr:
      return storage::UpdateKind::kOr;
    case wire::Opcode::kFetchXor:
      return storage::UpdateKind::kXor;
    case wire::Opcode::kFetchMin:
      return storage::UpdateKind::kMin;
    case wire::Opcode::kFetchMax:
      return storage::UpdateKind::kMax;
    default:
      return storage::UpdateKind::kAdd;
  }
}

void HandleFetch(const OperationContext& context, Reply* reply) {
  const wire::Operation& operation = context.operation;
  const bool if_present = operation.condition == wire::PutCondition::kIfPresent;
  if (!if_present && operation.condition != wire::PutCondition::kAlways) {
    reply->answer.code = StatusCode::kInvalidArgument;
    reply->answer.value = AsBytes("a counter is changed always or if present");
    return;
  }
  const auto type = operation.value_kind == wire::ValueKind::kF64 ? storage::CounterType::kF64
                                                                  : storage::CounterType::kI64;
  const HashOutcome outcome = context.partition.hash().FetchUpdate(
      operation.key, context.hash, UpdateKindOf(operation.opcode), type,
      operation.get(Argument::kOperand), context.now_ms, if_present);
  ConcludeWithNumber(outcome, outcome.previous, reply);
  reply->answer.value_kind =
      type == storage::CounterType::kF64 ? wire::ValueKind::kF64 : wire::ValueKind::kI64;
  Explain(reply, StatusCode::kInvalidArgument,
          "the value is not a counter of this type; make one with put --int or by adding to an "
          "absent key");
  Explain(reply, StatusCode::kOutOfRange, "the sum does not fit a 64-bit integer; value unchanged");
}

void HandleCompareAndSwap(const OperationContext& context, Reply* reply) {
  const wire::Operation& operation = context.operation;
  // Checked by the decoder.
  const auto expected_bytes = static_cast<std::size_t>(operation.get(Argument::kExpectedBytes));
  Conclude(context.partition.hash().CompareAndSwap(
               operation.key, context.hash, operation.value.first(expected_bytes),
               operation.value.subspan(expected_bytes), context.now_ms),
           reply);
}

void HandleAppend(const OperationContext& context, Reply* reply) {
  const HashOutcome outcome = context.partition.hash().Append(
      context.operation.key, context.hash, context.operation.value, context.now_ms);
  ConcludeWithNumber(outcome, outcome.value_bytes, reply);
  Explain(reply, StatusCode::kOutOfRange, "the value would exceed 1 GiB; value unchanged");
}

void HandleExpire(const OperationContext& context, Reply* reply) {
  Conclude(context.partition.hash().Expire(context.operation.key, context.hash,
                                           TtlOf(context.operation), context.now_ms),
           reply);
}

void HandleTtl(const OperationContext& context, Reply* reply) {
  const HashOutcome outcome =
      context.partition.hash().Ttl(context.operation.key, context.hash, context.now_ms);
  ConcludeWithNumber(outcome, outcome.result, reply);
}

void HandleWait(const OperationContext& context, Reply* reply) {
  const wire::Operation& operation = context.operation;
  const HashOutcome outcome =
      context.partition.hash().Get(operation.key, context.hash, context.now_ms);
  const bool for_change = operation.has(Argument::kVersion);
  const bool over = for_change ? outcome.version != Lsn(operation.get(Argument::kVersion))
                               : outcome.code == StatusCode::kOk;
  if (over) return ConcludeWithValue(outcome, reply);
  if (context.may_wait) {
    reply->wait_for = WaitFor::kChange;
    return;
  }
  reply->answer.code = StatusCode::kDeadlineExceeded;
  reply->answer.value =
      AsBytes(for_change ? "the key did not change in time" : "the key did not come in time");
}

void HandleLength(const OperationContext& context, Reply* reply) {
  reply->answer.has_number = true;
  reply->answer.number = context.partition.records();
}

// Lists records into the scratch memory. Omits a value that is too large for a list, or for the
// room of the first record; the client gets it by its key.
void HandleIterate(const OperationContext& context, Reply* reply) {
  const wire::Operation& operation = context.operation;
  const bool keys_only = (operation.get(Argument::kOptions) & wire::kIterateKeysOnly) != 0;
  const std::uint64_t records_max =
      operation.get(Argument::kOperand) == 0 ? ~0ull : operation.get(Argument::kOperand);
  std::byte* at = context.scratch.data();
  const std::size_t kept = std::min(context.scratch.size(), wire::kUnreadableEntryBytes);
  // Room for the count of unreadable records.
  std::byte* const end = at + (context.scratch.size() - kept);
  absl::InlinedVector<std::byte*, 64> ends;  // Behind each record, since some may be thrown away.
  bool no_room = false;                      // There is no room even for one record.
  const auto visit = [&](const storage::RecordView& record) {
    wire::ListedRecord listed = ListedOf(record, keys_only);
    if (ends.empty() && listed.bytes() > static_cast<std::size_t>(end - at)) {
      listed.value_omitted = true;
    }
    if (listed.bytes() > static_cast<std::size_t>(end - at)) {
      no_room = ends.empty();
      return false;
    }
    at = wire::AppendRecord(listed, at);
    ends.push_back(at);
    return true;
  };
  const storage::IterateResult result = context.partition.hash().Iterate(
      operation.get(Argument::kCursor), records_max, context.now_ms, visit);
  reply->answer.has_number = true;
  reply->answer.number = result.done ? 0 : result.cursor;
  if (result.records == 0 && no_room) {
    reply->answer.code = StatusCode::kInvalidArgument;
    reply->answer.value = AsBytes("no room for one record in the answer; allow 60 KiB");
    return;
  }
  std::byte* last = result.records == 0 ? context.scratch.data()
                                        : ends[static_cast<std::size_t>(result.records) - 1];
  if (result.unreadable > 0) {
    wire::ListedRecord unreadable;
    unreadable.unreadable = static_cast<std::uint32_t>(result.unreadable);
    last = wire::AppendRecord(unreadable, last);
  }
  reply->answer.value =
      Bytes(context.scratch.data(), static_cast<std::size_t>(last - context.scratch.data()));
}

constexpr HandlerEntry kHashHandlers[] = {
    {wire::Opcode::kGet, HandleGet},        {wire::Opcode::kPut, HandlePut},
    {wire::Opcode::kDelete, HandleDelete},  {wire::Opcode::kContains, HandleContains},
    {wire::Opcode::kTake, HandleTake},      {wire::Opcode::kFetchAdd, HandleFetch},
    {wire::Opcode::kFetchAnd, HandleFetch}, {wire::Opcode::kFetchOr, HandleFetch},
    {wire::Opcode::kFetchXor, HandleFetch}, {wire::Opcode::kFetchMin, HandleFetch},
    {wire::Opcode::kFetchMax, HandleFetch}, {wire::Opcode::kCompareAndSwap, HandleCompareAndSwap},
    {wire::Opcode::kAppend, HandleAppend},  {wire::Opcode::kExpire, HandleExpire},
    {wire::Opcode::kTtl, HandleTtl},        {wire::Opcode::kIterate, HandleIterate},
    {wire::Opcode::kLength, HandleLength},  {wire::Opcode::kWait, HandleWait},
};

}  // namespace

std::span<const HandlerEntry> HashHandlers() { return kHashHandlers; }

}  // namespace tidepool::daemon
