// The single operations of BytesMap. Each method has its opcode, and its handler in the daemon.
#include "tidepool/bytes_map.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "client/calls/calls.h"
#include "client/calls/direct_calls.h"
#include "client/calls/durations.h"
#include "client/calls/range_calls.h"

namespace tidepool {
namespace {

using internal::CallRef;
using internal::Mode;
using internal::Operation;
using internal::OperationSpec;
using wire::Argument;
using wire::Opcode;

// Makers of results; the call is done.
Result<Version> TakeVersion(CallRef call) {
  const Operation& operation = Only(call);
  if (operation.code != StatusCode::kOk) return call.get()->StatusOf(operation);
  return Version{operation.version.value()};
}

Result<std::uint64_t> TakeNumber(CallRef call) {
  const Operation& operation = Only(call);
  if (operation.code != StatusCode::kOk) return call.get()->StatusOf(operation);
  return std::uint64_t{operation.number};
}

Result<std::chrono::milliseconds> TakeTtl(CallRef call) {
  const Operation& operation = Only(call);
  if (operation.code != StatusCode::kOk) return call.get()->StatusOf(operation);
  return internal::FromTtlMs(operation.number);
}

Result<std::int64_t> TakeI64(CallRef call) {
  const Operation& operation = Only(call);
  if (operation.code != StatusCode::kOk) return call.get()->StatusOf(operation);
  return static_cast<std::int64_t>(operation.number);
}

Result<double> TakeF64(CallRef call) {
  const Operation& operation = Only(call);
  if (operation.code != StatusCode::kOk) return call.get()->StatusOf(operation);
  return std::bit_cast<double>(operation.number);
}

Result<std::uint64_t> TakeSum(CallRef call) {
  if (call.get()->operations()[0].opcode == Opcode::kCountRange) {
    return internal::TakeStoredCount(std::move(call));
  }
  std::uint64_t sum = 0;
  for (const Operation& operation : call.get()->operations()) {
    if (operation.code != StatusCode::kOk) return call.get()->StatusOf(operation);
    sum += operation.number;
  }
  return sum;
}

OperationSpec Spec(Opcode opcode, std::string_view key, const CallOptions& options) {
  OperationSpec spec;
  spec.opcode = opcode;
  spec.key = key;
  spec.timeout = options.timeout;
  spec.promise = options.promise;
  spec.receipt = options.receipt;
  return spec;
}

OperationSpec PutSpec(std::string_view key, std::string_view value, const PutOptions& options) {
  OperationSpec spec = Spec(Opcode::kPut, key, {options.timeout});
  spec.receipt = options.receipt;
  spec.value = value;
  spec.condition = static_cast<wire::PutCondition>(options.condition);
  spec.value_kind = static_cast<wire::ValueKind>(options.kind);
  if (options.condition == PutCondition::kIfVersion) {
    spec.Add(Argument::kVersion, options.if_version);
  }
  if (options.ttl.has_value()) spec.Add(Argument::kTtlMs, internal::ToTtlMs(*options.ttl));
  return spec;
}
static_assert(static_cast<int>(PutCondition::kIfVersion) ==
              static_cast<int>(wire::PutCondition::kIfVersion));
static_assert(static_cast<int>(ValueKind::kF64) == static_cast<int>(wire::ValueKind::kF64));

OperationSpec DeleteSpec(std::string_view key, const DeleteOptions& options) {
  OperationSpec spec = Spec(Opcode::kDelete, key, {options.timeout});
  spec.receipt = options.receipt;
  if (options.if_version != 0) spec.Add(Argument::kVersion, options.if_version);
  return spec;
}

OperationSpec FetchSpec(Opcode opcode, std::string_view key, std::int64_t operand,
                        const CallOptions& options) {
  OperationSpec spec = Spec(opcode, key, options);
  spec.value_kind = wire::ValueKind::kI64;
  spec.Add(Argument::kOperand, static_cast<std::uint64_t>(operand));
  return spec;
}

OperationSpec FetchSpec(Opcode opcode, std::string_view key, double operand,
                        const CallOptions& options) {
  OperationSpec spec = Spec(opcode, key, options);
  spec.value_kind = wire::ValueKind::kF64;
  spec.Add(Argument::kOperand, std::bit_cast<std::uint64_t>(operand));
  return spec;
}

OperationSpec AddIfPresentSpec(std::string_view key, std::int64_t by, const CallOptions& options) {
  OperationSpec spec = FetchSpec(Opcode::kFetchAdd, key, by, options);
  spec.condition = wire::PutCondition::kIfPresent;
  return spec;
}

OperationSpec SwapSpec(std::string_view key, std::string_view expected, std::string_view desired,
                       const CallOptions& options) {
  OperationSpec spec = Spec(Opcode::kCompareAndSwap, key, options);
  spec.value = expected;
  spec.value_tail = desired;
  spec.Add(Argument::kExpectedBytes, expected.size());
  return spec;
}

OperationSpec ApplySpec(std::string_view key, std::string_view function, std::string_view argument,
                        const CallOptions& options) {
  OperationSpec spec = Spec(Opcode::kApply, key, options);
  spec.value = function;
  spec.value_tail = argument;
  spec.Add(Argument::kExpectedBytes, function.size());
  return spec;
}

OperationSpec AppendSpec(std::string_view key, std::string_view suffix,
                         const CallOptions& options) {
  OperationSpec spec = Spec(Opcode::kAppend, key, options);
  spec.value = suffix;
  return spec;
}

OperationSpec ExpireSpec(std::string_view key, std::chrono::milliseconds ttl,
                         const CallOptions& options) {
  OperationSpec spec = Spec(Opcode::kExpire, key, options);
  spec.Add(Argument::kTtlMs, internal::ToTtlMs(ttl));
  return spec;
}

// `known`: of the record that the caller has seen; nothing: that it is there is enough.
OperationSpec WaitSpec(std::string_view key, std::optional<Version> known,
                       const CallOptions& options) {
  OperationSpec spec = Spec(Opcode::kWait, key, options);
  if (known.has_value()) spec.Add(Argument::kVersion, *known);
  spec.waits = true;
  return spec;
}

CallRef Sync(const Namespace& space, const OperationSpec& spec) {
  return internal::StartOne(*space.space(), spec, Mode::kSync);
}

template <typename T>
Future<T> Async(const Namespace& space, const OperationSpec& spec, Result<T> (*take)(CallRef)) {
  return internal::Access::FutureOf(internal::StartOne(*space.space(), spec, Mode::kAsync), take);
}

CallRef StartLength(const Namespace& space, Mode mode, const CallOptions& options) {
  internal::SpaceState* state = space.space()->state();
  if (state->kind == placement::Kind::kOrdered) {
    return internal::StartStoredCount(*space.space(), mode, options.timeout);
  }
  internal::Call* call = internal::Call::Make(state->queues.size(), 0);
  std::size_t i = 0;
  for (Operation& operation : call->operations()) {
    operation.queue = &state->queues[i++];
    operation.opcode = Opcode::kLength;
  }
  return internal::StartCall(*space.space(), call, mode, options.timeout, 0);
}

Status StatusOf(CallRef call) { return call.get()->StatusOf(Only(call)); }

Result<ValueView> CopyValue(const CallRef& call, MutableBytes to) {
  const Operation& operation = Only(call);
  internal::RememberReads(call.get());
  if (operation.code != StatusCode::kOk) return call.get()->StatusOf(operation);
  const Bytes value = AsBytes(operation.result);
  if (value.size() > to.size()) {
    return Status(StatusCode::kOutOfRange,
                  "the value has " + std::to_string(value.size()) + " bytes, the memory for it " +
                      std::to_string(to.size()),
                  "give as much, or use Get");
  }
  std::copy(value.begin(), value.end(), to.begin());
  return ValueView{to.first(value.size()), static_cast<ValueKind>(operation.result_kind),
                   operation.version.value()};
}

}  // namespace

namespace internal {

Result<Value> TakeValue(CallRef call) {
  const Operation& operation = Only(call);
  RememberReads(call.get());
  if (operation.code != StatusCode::kOk) return call.get()->StatusOf(operation);
  Value value;
  value.kind = static_cast<ValueKind>(operation.result_kind);
  value.version = operation.version.value();
  value.bytes = call.get()->TakeSingleResult();
  return value;
}

Result<bool> TakeFound(CallRef call) {
  const Operation& operation = Only(call);
  if (operation.code == StatusCode::kOk) return true;
  const Status status = call.get()->StatusOf(operation);
  // A dropped namespace is no answer, and has a text of its own.
  if (operation.code == StatusCode::kNotFound && !call.get()->HasFailure(operation)) return false;
  return status;
}

Result<bool> TakeInserted(CallRef call) {
  const Operation& operation = Only(call);
  if (operation.code == StatusCode::kOk) return true;
  if (operation.code == StatusCode::kAlreadyExists) return false;
  return call.get()->StatusOf(operation);
}

}  // namespace internal

Result<Value> BytesMap::Get(std::string_view key, const CallOptions& options) const {
  if (auto read = internal::ReadDirectly(*space_.space(), key, options)) return *std::move(read);
  return internal::TakeValue(Sync(space_, Spec(Opcode::kGet, key, options)));
}

Result<ValueView> BytesMap::GetInto(std::string_view key, std::span<std::byte> to,
                                    const CallOptions& options) const {
  if (auto read = internal::ReadDirectlyInto(*space_.space(), key, to, options)) {
    return *std::move(read);
  }
  return CopyValue(Sync(space_, Spec(Opcode::kGet, key, options)), to);
}

Future<Value> BytesMap::GetAsync(std::string_view key, const CallOptions& options) const {
  return Async(space_, Spec(Opcode::kGet, key, options), &internal::TakeValue);
}

Result<Value> BytesMap::WaitForKey(std::string_view key, const CallOptions& options) const {
  return internal::TakeValue(Sync(space_, WaitSpec(key, std::nullopt, options)));
}
Future<Value> BytesMap::WaitForKeyAsync(std::string_view key, const CallOptions& options) const {
  return Async(space_, WaitSpec(key, std::nullopt, options), &internal::TakeValue);
}

Result<Value> BytesMap::WaitForChange(std::string_view key, Version known,
                                      const CallOptions& options) const {
  return internal::TakeValue(Sync(space_, WaitSpec(key, known, options)));
}
Future<Value> BytesMap::WaitForChangeAsync(std::string_view key, Version known,
                                           const CallOptions& options) const {
  return Async(space_, WaitSpec(key, known, options), &internal::TakeValue);
}

Result<Value> BytesMap::Take(std::string_view key, const CallOptions& options) const {
  return internal::TakeValue(Sync(space_, Spec(Opcode::kTake, key, options)));
}
Future<Value> BytesMap::TakeAsync(std::string_view key, const CallOptions& options) const {
  return Async(space_, Spec(Opcode::kTake, key, options), &internal::TakeValue);
}

Result<Version> BytesMap::Put(std::string_view key, std::string_view value,
                              const PutOptions& options) const {
  return TakeVersion(Sync(space_, PutSpec(key, value, options)));
}
Future<Version> BytesMap::PutAsync(std::string_view key, std::string_view value,
                                   const PutOptions& options) const {
  return Async(space_, PutSpec(key, value, options), &TakeVersion);
}

Status BytesMap::Delete(std::string_view key, const DeleteOptions& options) const {
  return StatusOf(Sync(space_, DeleteSpec(key, options)));
}
Future<void> BytesMap::DeleteAsync(std::string_view key, const DeleteOptions& options) const {
  return internal::Access::FutureOf(
      internal::StartOne(*space_.space(), DeleteSpec(key, options), Mode::kAsync), &StatusOf);
}

Result<bool> BytesMap::Contains(std::string_view key, const CallOptions& options) const {
  if (auto found = internal::FindDirectly(*space_.space(), key, options)) return *found;
  return internal::TakeFound(Sync(space_, Spec(Opcode::kContains, key, options)));
}
Future<bool> BytesMap::ContainsAsync(std::string_view key, const CallOptions& options) const {
  return Async(space_, Spec(Opcode::kContains, key, options), &internal::TakeFound);
}

Result<std::uint64_t> BytesMap::Length(const CallOptions& options) const {
  return TakeSum(StartLength(space_, Mode::kSync, options));
}
Future<std::uint64_t> BytesMap::LengthAsync(const CallOptions& options) const {
  return internal::Access::FutureOf(StartLength(space_, Mode::kAsync, options), &TakeSum);
}

// The counters differ in opcode and number only.
#define TIDEPOOL_FETCH(Name, kOpcode, Number, TakeIt)                                             \
  Result<Number> BytesMap::Name(std::string_view key, Number operand, const CallOptions& options) \
      const {                                                                                     \
    return TakeIt(Sync(space_, FetchSpec(Opcode::kOpcode, key, operand, options)));               \
  }                                                                                               \
  Future<Number> BytesMap::Name##Async(std::string_view key, Number operand,                      \
                                       const CallOptions& options) const {                        \
    return Async(space_, FetchSpec(Opcode::kOpcode, key, operand, options), &TakeIt);             \
  }
TIDEPOOL_FETCH(FetchAdd, kFetchAdd, std::int64_t, TakeI64)
TIDEPOOL_FETCH(FetchAnd, kFetchAnd, std::int64_t, TakeI64)
TIDEPOOL_FETCH(FetchOr, kFetchOr, std::int64_t, TakeI64)
TIDEPOOL_FETCH(FetchXor, kFetchXor, std::int64_t, TakeI64)
TIDEPOOL_FETCH(FetchMin, kFetchMin, std::int64_t, TakeI64)
TIDEPOOL_FETCH(FetchMax, kFetchMax, std::int64_t, TakeI64)
#undef TIDEPOOL_FETCH
#define TIDEPOOL_FETCH_F64(Name, kOpcode)                                                         \
  Result<double> BytesMap::Name(std::string_view key, double operand, const CallOptions& options) \
      const {                                                                                     \
    return TakeF64(Sync(space_, FetchSpec(Opcode::kOpcode, key, operand, options)));              \
  }                                                                                               \
  Future<double> BytesMap::Name##Async(std::string_view key, double operand,                      \
                                       const CallOptions& options) const {                        \
    return Async(space_, FetchSpec(Opcode::kOpcode, key, operand, options), &TakeF64);            \
  }
TIDEPOOL_FETCH_F64(FetchAddF64, kFetchAdd)
TIDEPOOL_FETCH_F64(FetchMinF64, kFetchMin)
TIDEPOOL_FETCH_F64(FetchMaxF64, kFetchMax)
#undef TIDEPOOL_FETCH_F64

Result<std::int64_t> BytesMap::FetchAddIfPresent(std::string_view key, std::int64_t by,
                                                 const CallOptions& options) const {
  return TakeI64(Sync(space_, AddIfPresentSpec(key, by, options)));
}
Future<std::int64_t> BytesMap::FetchAddIfPresentAsync(std::string_view key, std::int64_t by,
                                                      const CallOptions& options) const {
  return Async(space_, AddIfPresentSpec(key, by, options), &TakeI64);
}

Result<Version> BytesMap::CompareAndSwap(std::string_view key, std::string_view expected,
                                         std::string_view desired,
                                         const CallOptions& options) const {
  return TakeVersion(Sync(space_, SwapSpec(key, expected, desired, options)));
}
Future<Version> BytesMap::CompareAndSwapAsync(std::string_view key, std::string_view expected,
                                              std::string_view desired,
                                              const CallOptions& options) const {
  return Async(space_, SwapSpec(key, expected, desired, options), &TakeVersion);
}

Result<Value> BytesMap::Apply(std::string_view key, std::string_view function,
                              std::string_view argument, const CallOptions& options) const {
  return internal::TakeValue(Sync(space_, ApplySpec(key, function, argument, options)));
}
Future<Value> BytesMap::ApplyAsync(std::string_view key, std::string_view function,
                                   std::string_view argument, const CallOptions& options) const {
  return Async(space_, ApplySpec(key, function, argument, options), &internal::TakeValue);
}

Result<std::uint64_t> BytesMap::Append(std::string_view key, std::string_view suffix,
                                       const CallOptions& options) const {
  return TakeNumber(Sync(space_, AppendSpec(key, suffix, options)));
}
Future<std::uint64_t> BytesMap::AppendAsync(std::string_view key, std::string_view suffix,
                                            const CallOptions& options) const {
  return Async(space_, AppendSpec(key, suffix, options), &TakeNumber);
}

Status BytesMap::Expire(std::string_view key, std::chrono::milliseconds ttl,
                        const CallOptions& options) const {
  return StatusOf(Sync(space_, ExpireSpec(key, ttl, options)));
}
Future<void> BytesMap::ExpireAsync(std::string_view key, std::chrono::milliseconds ttl,
                                   const CallOptions& options) const {
  return internal::Access::FutureOf(
      internal::StartOne(*space_.space(), ExpireSpec(key, ttl, options), Mode::kAsync), &StatusOf);
}

Result<std::chrono::milliseconds> BytesMap::Ttl(std::string_view key,
                                                const CallOptions& options) const {
  return TakeTtl(Sync(space_, Spec(Opcode::kTtl, key, options)));
}
Future<std::chrono::milliseconds> BytesMap::TtlAsync(std::string_view key,
                                                     const CallOptions& options) const {
  return Async(space_, Spec(Opcode::kTtl, key, options), &TakeTtl);
}

}  // namespace tidepool
