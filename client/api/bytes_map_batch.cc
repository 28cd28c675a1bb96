// The batches of BytesMap. A call has one block of memory. Keys are hashed here, outside of all
// locks.
#include <utility>

#include "client/buffers/quiet_puts.h"
#include "client/calls/calls.h"
#include "client/calls/durations.h"
#include "proto/base/limits.h"
#include "tidepool/bytes_map.h"

namespace tidepool {
namespace {

using internal::Call;
using internal::CallRef;
using internal::Mode;
using internal::Operation;
using wire::Argument;
using wire::Opcode;

Result<BatchResult> TakeBatch(CallRef call) {
  return internal::Access::Make<BatchResult>(std::move(call));
}

CallRef StartEachPut(const internal::Space& space, std::span<const KeyValue> records, Mode mode,
                     const PutOptions& options) {
  std::size_t bytes = 0;
  for (const KeyValue& record : records) bytes += record.key.size() + record.value.size();
  Call* call = Call::Make(records.size(), mode == Mode::kAsync ? bytes : 0);
  call->set_receipt(options.receipt);
  const std::span<Operation> operations = call->operations();
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (i + internal::kPrefetchAhead < records.size()) {
      __builtin_prefetch(records[i + internal::kPrefetchAhead].key.data());
    }
    Operation& operation = operations[i];
    const std::string_view value = records[i].value;
    operation.opcode = Opcode::kPut;
    if (value.size() > limits::kValueBytesMax ||
        !internal::SetKey(space, call, &operation, records[i].key, mode)) {
      call->Refuse(&operation, internal::CheckSizes(records[i].key, value.size(), false));
      continue;
    }
    operation.condition = static_cast<wire::PutCondition>(options.condition);
    operation.value_kind = static_cast<wire::ValueKind>(options.kind);
    operation.value = mode == Mode::kAsync ? call->Copy(value) : AsBytes(value).data();
    operation.value_bytes = static_cast<std::uint32_t>(value.size());
    operation.streamed = value.size() > limits::kUnstreamedValueBytesMax;
    if (options.condition == PutCondition::kIfVersion) {
      operation.AddArgument(Argument::kVersion, options.if_version);
    }
    if (options.ttl.has_value()) {
      operation.AddArgument(Argument::kTtlMs, internal::ToTtlMs(*options.ttl));
    }
  }
  return internal::StartCall(space, call, mode, options.timeout, bytes);
}

CallRef StartPuts(const Namespace& handle, std::span<const KeyValue> records, Mode mode,
                  const PutOptions& options) {
  const internal::Space& space = *handle.space();
  // Acts like a WriteNotice for each record.
  const auto note_writes = [&] {
    if (!space.minds_writes()) return;
    for (const KeyValue& record : records) {
      space.NoteWrite(record.key, record.value.size() > limits::kUnstreamedValueBytesMax);
    }
  };
  note_writes();
  const bool quiet =
      options.condition == PutCondition::kAlways &&
      space.Promises(Promise::kInsertOnly | Promise::kDisjointWrites, options.promise);
  CallRef started = quiet ? internal::StartQuietPuts(space, records, mode, options)
                          : StartEachPut(space, records, mode, options);
  note_writes();
  return started;
}

}  // namespace

BatchResult BytesMap::MultiGet(std::span<const std::string_view> keys,
                               const CallOptions& options) const {
  return internal::Access::Make<BatchResult>(
      internal::StartKeys(*space_.space(), Opcode::kGet, keys, Mode::kSync, options));
}
Future<BatchResult> BytesMap::MultiGetAsync(std::span<const std::string_view> keys,
                                            const CallOptions& options) const {
  return internal::Access::FutureOf(
      internal::StartKeys(*space_.space(), Opcode::kGet, keys, Mode::kAsync, options), &TakeBatch);
}

BatchResult BytesMap::MultiPut(std::span<const KeyValue> records, const PutOptions& options) const {
  return internal::Access::Make<BatchResult>(StartPuts(space_, records, Mode::kSync, options));
}
Future<BatchResult> BytesMap::MultiPutAsync(std::span<const KeyValue> records,
                                            const PutOptions& options) const {
  return internal::Access::FutureOf(StartPuts(space_, records, Mode::kAsync, options), &TakeBatch);
}

BatchResult BytesMap::MultiDelete(std::span<const std::string_view> keys,
                                  const CallOptions& options) const {
  return internal::Access::Make<BatchResult>(
      internal::StartKeys(*space_.space(), Opcode::kDelete, keys, Mode::kSync, options));
}
Future<BatchResult> BytesMap::MultiDeleteAsync(std::span<const std::string_view> keys,
                                               const CallOptions& options) const {
  return internal::Access::FutureOf(
      internal::StartKeys(*space_.space(), Opcode::kDelete, keys, Mode::kAsync, options),
      &TakeBatch);
}

}  // namespace tidepool
