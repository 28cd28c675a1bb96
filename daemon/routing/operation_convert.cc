#include "daemon/routing/operation_convert.h"

#include <algorithm>
#include <bit>
#include <string>

#include "proto/base/limits.h"
#include "proto/file_tree/beneath.h"
#include "proto/wire/queue_ops.h"

namespace tidepool::daemon {
namespace {

using wire::Argument;
using wire::Opcode;

// The proto's numbers are the wire's, operation by operation.
static_assert(static_cast<int>(v1::OPERATION_KIND_GET) == static_cast<int>(Opcode::kGet));
static_assert(static_cast<int>(v1::OPERATION_KIND_FETCH_MAX) ==
              static_cast<int>(Opcode::kFetchMax));
static_assert(static_cast<int>(v1::OPERATION_KIND_TTL) == static_cast<int>(Opcode::kTtl));
static_assert(static_cast<int>(v1::OPERATION_KIND_LENGTH) == static_cast<int>(Opcode::kLength));
static_assert(static_cast<int>(v1::OPERATION_KIND_APPLY) == static_cast<int>(Opcode::kApply));
static_assert(static_cast<int>(v1::OPERATION_KIND_PREFILTER_DESCRIBE) ==
              static_cast<int>(Opcode::kPrefilterDescribe));
static_assert(static_cast<int>(v1::OPERATION_KIND_PUSH) == static_cast<int>(Opcode::kPush));
static_assert(static_cast<int>(v1::OPERATION_KIND_POP) == static_cast<int>(Opcode::kPop));
static_assert(static_cast<int>(v1::OPERATION_KIND_QUEUE_LENGTH) ==
              static_cast<int>(Opcode::kQueueLength));
static_assert(static_cast<int>(v1::OPERATION_KIND_BLOOM_INSERT) ==
              static_cast<int>(Opcode::kBloomInsert));
static_assert(static_cast<int>(v1::OPERATION_KIND_BLOOM_CONTAINS) ==
              static_cast<int>(Opcode::kBloomContains));
static_assert(static_cast<int>(v1::OPERATION_KIND_BLOOM_DESCRIBE) ==
              static_cast<int>(Opcode::kBloomDescribe));

bool IsKnown(v1::OperationKind kind) {
  return (kind >= v1::OPERATION_KIND_GET && kind <= v1::OPERATION_KIND_TTL) ||
         kind == v1::OPERATION_KIND_LENGTH || kind == v1::OPERATION_KIND_PREFILTER_DESCRIBE ||
         kind == v1::OPERATION_KIND_APPLY || kind == v1::OPERATION_KIND_PUSH ||
         (kind >= v1::OPERATION_KIND_POP && kind <= v1::OPERATION_KIND_QUEUE_LENGTH) ||
         kind == v1::OPERATION_KIND_BLOOM_INSERT || kind == v1::OPERATION_KIND_BLOOM_CONTAINS ||
         kind == v1::OPERATION_KIND_BLOOM_DESCRIBE;
}

bool IsOfQueues(Opcode opcode) { return opcode >= Opcode::kPush && opcode <= Opcode::kQueueLength; }

bool IsFetch(Opcode opcode) { return opcode >= Opcode::kFetchAdd && opcode <= Opcode::kFetchMax; }

Status Invalid(std::string what) { return Status(StatusCode::kInvalidArgument, std::move(what)); }

Status CheckSizes(const std::string& key, std::size_t value_bytes) {
  if (key.size() > limits::kKeyBytesMax) {
    return Status(StatusCode::kInvalidArgument, "a key of " + std::to_string(key.size()) + " bytes",
                  "keys have at most " + std::to_string(limits::kKeyBytesMax) + " bytes");
  }
  if (value_bytes > limits::kValueBytesMax) {
    return Status(StatusCode::kInvalidArgument,
                  "a value of " + std::to_string(value_bytes) + " bytes",
                  "values have at most 1 GiB");
  }
  return OkStatus();
}

Result<wire::ValueKind> KindFromProto(v1::ValueKind kind) {
  if (kind < v1::VALUE_KIND_BYTES || kind > v1::VALUE_KIND_F64)
    return Invalid("unknown value kind");
  return static_cast<wire::ValueKind>(kind);
}

}  // namespace

Result<wire::Operation> FromProto(const v1::Operation& from) {
  if (!IsKnown(from.kind())) return Invalid("unknown kind of operation");
  if (!wire::InfoOf(static_cast<Opcode>(from.kind())).keyed && !from.key().empty()) {
    return Invalid("a key of an operation without one");
  }
  const std::size_t bytes = from.value().size() + from.expected().size() + from.function().size();
  TP_RETURN_IF_ERROR(CheckSizes(from.key(), bytes));
  const bool one_piece = from.kind() == v1::OPERATION_KIND_APPEND ||
                         from.kind() == v1::OPERATION_KIND_COMPARE_AND_SWAP ||
                         from.kind() == v1::OPERATION_KIND_APPLY;
  if (one_piece && bytes > limits::kUnstreamedValueBytesMax) {
    const std::string name(wire::InfoOf(static_cast<Opcode>(from.kind())).name);
    return Status(StatusCode::kInvalidArgument,
                  std::to_string(bytes) + " bytes in one " + name + ", which takes at most 32 KiB",
                  from.kind() == v1::OPERATION_KIND_APPEND
                      ? "append several times, or put the whole value, up to 1 GiB"
                      : "put takes up to 1 GiB, also with the version that is to be replaced");
  }
  auto kind = KindFromProto(from.value_kind());
  if (!kind.ok()) return kind.status();
  wire::Operation to;
  to.opcode = static_cast<Opcode>(from.kind());
  to.key = AsBytes(from.key());
  to.value_kind = *kind;
  if (wire::InfoOf(to.opcode).takes_value) to.value = AsBytes(from.value());
  if (IsFetch(to.opcode)) {
    to.set(Argument::kOperand, to.value_kind == wire::ValueKind::kF64
                                   ? std::bit_cast<std::uint64_t>(from.operand_f64())
                                   : static_cast<std::uint64_t>(from.operand()));
    if (from.condition() == v1::PUT_CONDITION_IF_PRESENT) {
      to.condition = wire::PutCondition::kIfPresent;
    } else if (from.condition() != v1::PUT_CONDITION_ALWAYS) {
      return Invalid("a counter is changed always or if present");
    }
  }
  switch (to.opcode) {
    case Opcode::kPut:
      if (from.condition() < v1::PUT_CONDITION_ALWAYS ||
          from.condition() > v1::PUT_CONDITION_IF_VERSION) {
        return Invalid("unknown condition");
      }
      to.condition = static_cast<wire::PutCondition>(from.condition());
      if (to.condition == wire::PutCondition::kIfVersion) {
        to.set(Argument::kVersion, from.version());
      }
      if (from.has_ttl_ms()) to.set(Argument::kTtlMs, from.ttl_ms());
      break;
    case Opcode::kDelete:
      if (from.version() != 0) to.set(Argument::kVersion, from.version());
      break;
    case Opcode::kExpire:
      if (!from.has_ttl_ms()) return Invalid("expire needs ttl_ms");
      to.set(Argument::kTtlMs, from.ttl_ms());
      break;
    case Opcode::kPush:
      if (from.has_ttl_ms()) to.set(Argument::kTtlMs, from.ttl_ms());
      to.set(Argument::kOperand, from.priority());
      break;
    case Opcode::kPop:
    case Opcode::kPeek:
      to.set(Argument::kOperand, std::max<std::uint64_t>(1, from.items_max()));
      if (from.lease_ms() == 0) break;
      if (to.opcode == Opcode::kPeek) return Invalid("a peek leases nothing");
      to.set(Argument::kTtlMs, from.lease_ms());
      break;
    case Opcode::kAck:
    case Opcode::kNack:
      to.set(Argument::kOperand, from.item_id());
      to.set(Argument::kCursor, from.deliveries());
      break;
    default:
      break;
  }
  return to;
}

namespace {

void QueueToProto(const wire::Operation& from, v1::Operation* to) {
  const std::uint64_t operand = from.get(Argument::kOperand);
  switch (from.opcode) {
    case Opcode::kPush:
      to->set_priority(operand);
      if (from.has(Argument::kTtlMs)) to->set_ttl_ms(from.get(Argument::kTtlMs));
      break;
    case Opcode::kPop:
    case Opcode::kPeek:
      to->set_items_max(operand);
      if (from.has(Argument::kTtlMs)) to->set_lease_ms(from.get(Argument::kTtlMs));
      break;
    case Opcode::kAck:
    case Opcode::kNack:
      to->set_item_id(operand);
      to->set_deliveries(from.get(Argument::kCursor));
      break;
    default:
      break;
  }
}

// The lists of this node's own cores are sound.
void QueueToProto(const OperationOutcome& from, Opcode opcode, v1::OperationResult* to) {
  if (opcode == Opcode::kQueueLength) {
    const auto lengths = wire::LoadQueueLengths(AsBytes(from.value)).value_or(wire::QueueLengths{});
    to->set_number(static_cast<std::int64_t>(lengths.ready));
    to->set_leased(lengths.leased);
    return;
  }
  if (from.has_number && opcode == Opcode::kPush) {
    to->set_number(static_cast<std::int64_t>(from.number));
  }
  if (opcode != Opcode::kPop && opcode != Opcode::kPeek) return;
  to->set_more(from.number != 0);
  wire::DeliveredItem item;
  for (Bytes rest = AsBytes(from.value); !rest.empty();) {
    if (!wire::TakeDeliveredItem(&rest, &item).ok()) return;
    v1::Item* added = to->add_items();
    added->set_id(item.id);
    added->set_value(item.value.data(), item.value.size());
    added->set_priority(item.priority);
    added->set_deliveries(item.deliveries);
  }
}

void QueueFromProto(const v1::OperationResult& from, Opcode opcode, OperationOutcome* to) {
  to->has_number = opcode == Opcode::kPush;
  to->number = static_cast<std::uint64_t>(from.number());
  if (opcode == Opcode::kQueueLength) {
    to->value.resize(wire::kQueueLengthsBytes);
    wire::StoreQueueLengths({to->number, from.leased()},
                            reinterpret_cast<std::byte*>(to->value.data()));
    return;
  }
  if (opcode != Opcode::kPop && opcode != Opcode::kPeek) return;
  to->has_number = true;
  to->number = from.more() ? 1 : 0;
  std::size_t bytes = 0;
  for (const v1::Item& item : from.items()) {
    bytes += wire::kDeliveredItemHeaderBytes + item.value().size();
  }
  to->value.resize(bytes);
  auto* at = reinterpret_cast<std::byte*>(to->value.data());
  for (const v1::Item& item : from.items()) {
    wire::DeliveredItem listed;
    listed.id = item.id();
    listed.priority = item.priority();
    listed.deliveries = static_cast<std::uint32_t>(item.deliveries());
    listed.value_bytes = static_cast<std::uint32_t>(item.value().size());
    listed.value = AsBytes(item.value());
    at = wire::AppendDeliveredItem(listed, at);
  }
}

}  // namespace

void ToProto(const wire::Operation& from, v1::Operation* to) {
  to->set_kind(static_cast<v1::OperationKind>(from.opcode));
  to->set_key(from.key.data(), from.key.size());
  to->set_value(from.value.data(), from.value.size());
  to->set_value_kind(static_cast<v1::ValueKind>(from.value_kind));
  to->set_condition(static_cast<v1::PutCondition>(from.condition));
  if (IsOfQueues(from.opcode)) return QueueToProto(from, to);
  if (from.has(Argument::kVersion)) to->set_version(from.get(Argument::kVersion));
  if (from.has(Argument::kTtlMs)) to->set_ttl_ms(from.get(Argument::kTtlMs));
  if (from.has(Argument::kOperand)) {
    to->set_operand(static_cast<std::int64_t>(from.get(Argument::kOperand)));
    to->set_operand_f64(std::bit_cast<double>(from.get(Argument::kOperand)));
  }
  if (from.has(Argument::kExpectedBytes)) {
    const auto bytes = static_cast<std::size_t>(from.get(Argument::kExpectedBytes));
    if (from.opcode == Opcode::kApply) {
      to->set_function(std::string(AsText(from.value.first(bytes))));
    } else {
      to->set_expected(from.value.data(), bytes);
    }
    to->set_value(from.value.data() + bytes, from.value.size() - bytes);
  }
}

void ToProto(const OperationOutcome& from, wire::Opcode opcode, v1::OperationResult* to) {
  to->mutable_status()->set_code(static_cast<std::uint32_t>(from.code));
  to->set_version(from.version.value());
  to->set_value_kind(static_cast<v1::ValueKind>(from.value_kind));
  if (from.code != StatusCode::kOk) {
    to->mutable_status()->set_message(file_tree::Printable(from.value));
    return;
  }
  if (IsOfQueues(opcode)) return QueueToProto(from, opcode, to);
  to->set_value(from.value);
  to->set_value_bytes(from.value_omitted ? from.number : from.value.size());
  to->set_value_omitted(from.value_omitted);
  if (from.value_omitted || !from.has_number) return;
  to->set_number(static_cast<std::int64_t>(from.number));  // For Ttl, all bits set is -1: for ever.
  if (IsFetch(opcode) && from.value_kind == wire::ValueKind::kF64) {
    to->set_number_f64(std::bit_cast<double>(from.number));
  }
  if (opcode == wire::Opcode::kAppend) to->set_value_bytes(from.number);
}

OperationOutcome FromProto(const v1::OperationResult& from, wire::Opcode opcode) {
  OperationOutcome to;
  to.code = from.status().code() < kStatusCodeCount ? static_cast<StatusCode>(from.status().code())
                                                    : StatusCode::kInternal;
  to.version = Lsn(from.version());
  const auto kind = KindFromProto(from.value_kind());
  to.value_kind = kind.value_or(wire::ValueKind::kBytes);
  to.value = to.code == StatusCode::kOk ? from.value() : from.status().message();
  if (to.code == StatusCode::kOk && IsOfQueues(opcode)) {
    QueueFromProto(from, opcode, &to);
    return to;
  }
  to.value_omitted = from.value_omitted();
  to.has_number = to.value_omitted || IsFetch(opcode) || opcode == Opcode::kTtl ||
                  opcode == Opcode::kAppend || opcode == Opcode::kLength;
  to.number = to.value_omitted ? from.value_bytes() : static_cast<std::uint64_t>(from.number());
  return to;
}

void ToProto(const wire::Receipt& from, v1::Receipt* to) {
  to->set_level(static_cast<v1::ReceiptLevel>(from.level));
  to->set_answered_at_ms(from.checkpoint.at_ms);
  to->set_durable_at_ms(from.checkpoint.durable_at_ms);
}

wire::Receipt FromProto(const v1::Receipt& from) {
  wire::Receipt to;
  if (v1::ReceiptLevel_IsValid(from.level())) {
    to.level = static_cast<wire::ReceiptLevel>(from.level());
  }
  to.checkpoint.at_ms = from.answered_at_ms();
  to.checkpoint.durable_at_ms = std::min<std::uint64_t>(from.durable_at_ms(), to.checkpoint.at_ms);
  return to;
}

Result<wire::Operation> PutOf(const v1::Record& from) {
  TP_RETURN_IF_ERROR(CheckSizes(from.key(), from.value().size()));
  auto kind = KindFromProto(from.value_kind());
  if (!kind.ok()) return kind.status();
  wire::Operation to;
  to.opcode = Opcode::kPut;
  to.key = AsBytes(from.key());
  to.value = AsBytes(from.value());
  to.value_kind = *kind;
  if (from.ttl_ms() != 0) to.set(Argument::kTtlMs, from.ttl_ms());
  return to;
}

Status StatusOf(const OperationOutcome& outcome, std::string_view space, std::string_view key) {
  if (outcome.code == StatusCode::kOk) return OkStatus();
  constexpr std::size_t kKeyShownMax = 64;
  std::string what = "key '" + file_tree::Printable(key.substr(0, kKeyShownMax)) +
                     "' of namespace '" + std::string(space) + "'";
  switch (outcome.code) {
    case StatusCode::kNotFound:
      // With a text it is the namespace that is missing.
      return Status(outcome.code, outcome.value.empty() ? what + " does not exist" : outcome.value);
    case StatusCode::kAlreadyExists:
      return Status(outcome.code, what + " exists already");
    case StatusCode::kFailedPrecondition:
      return Status(outcome.code, what + (outcome.value.empty()
                                              ? " has another value or version (version " +
                                                    std::to_string(outcome.version.value()) + ")"
                                              : ": " + outcome.value));
    case StatusCode::kResourceExhausted:
      // With a text it is the namespace's share that is used up.
      if (!outcome.value.empty()) return Status(outcome.code, outcome.value);
      return Status(outcome.code, "no memory for " + what,
                    "delete something, or start the daemons with more --memory");
    case StatusCode::kDataLoss:
      return Status(outcome.code, what + " was on a node that lost its data",
                    "go on with what is left: kvctl namespace accept-loss " + std::string(space));
    default:
      return Status(outcome.code,
                    outcome.value.empty() ? std::move(what) : what + ": " + outcome.value);
  }
}

}  // namespace tidepool::daemon
