#include "daemon/services/operation_convert.h"

#include <bit>
#include <string>

#include "proto/base/limits.h"

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
static_assert(static_cast<int>(v1::OPERATION_KIND_BLOOM_INSERT) ==
              static_cast<int>(Opcode::kBloomInsert));
static_assert(static_cast<int>(v1::OPERATION_KIND_BLOOM_CONTAINS) ==
              static_cast<int>(Opcode::kBloomContains));
static_assert(static_cast<int>(v1::OPERATION_KIND_BLOOM_DESCRIBE) ==
              static_cast<int>(Opcode::kBloomDescribe));

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
  const bool known = from.kind() >= v1::OPERATION_KIND_GET && from.kind() <= v1::OPERATION_KIND_TTL;
  if (!known && from.kind() != v1::OPERATION_KIND_LENGTH &&
      from.kind() != v1::OPERATION_KIND_PREFILTER_DESCRIBE &&
      from.kind() != v1::OPERATION_KIND_APPLY && from.kind() != v1::OPERATION_KIND_BLOOM_INSERT &&
      from.kind() != v1::OPERATION_KIND_BLOOM_CONTAINS &&
      from.kind() != v1::OPERATION_KIND_BLOOM_DESCRIBE) {
    return Invalid("unknown kind of operation");
  }
  const std::size_t bytes = from.value().size() + from.expected().size() + from.function().size();
  TP_RETURN_IF_ERROR(CheckSizes(from.key(), bytes));
  const bool one_piece = from.kind() == v1::OPERATION_KIND_APPEND ||
                         from.kind() == v1::OPERATION_KIND_COMPARE_AND_SWAP ||
                         from.kind() == v1::OPERATION_KIND_APPLY;
  if (one_piece && bytes > limits::kUnstreamedValueBytesMax) {
    return Status(StatusCode::kInvalidArgument,
                  std::to_string(bytes) + " bytes in one " +
                      std::string(wire::InfoOf(static_cast<Opcode>(from.kind())).name),
                  "these take at most 32 KiB; put takes 1 GiB, if wanted with a version");
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
    default:
      break;
  }
  return to;
}

void ToProto(const wire::Operation& from, v1::Operation* to) {
  to->set_kind(static_cast<v1::OperationKind>(from.opcode));
  to->set_key(from.key.data(), from.key.size());
  to->set_value(from.value.data(), from.value.size());
  to->set_value_kind(static_cast<v1::ValueKind>(from.value_kind));
  to->set_condition(static_cast<v1::PutCondition>(from.condition));
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
    to->mutable_status()->set_message(from.value);
    return;
  }
  to->set_value(from.value);
  to->set_value_bytes(from.value_omitted ? from.number : from.value.size());
  to->set_value_omitted(from.value_omitted);
  if (from.value_omitted || !from.has_number) return;
  to->set_number(static_cast<std::int64_t>(from.number));  // Ttl: all ones is -1, for ever.
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
  to.value_omitted = from.value_omitted();
  to.has_number = to.value_omitted || IsFetch(opcode) || opcode == Opcode::kTtl ||
                  opcode == Opcode::kAppend || opcode == Opcode::kLength;
  to.number = to.value_omitted ? from.value_bytes() : static_cast<std::uint64_t>(from.number());
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
  std::string what = "key '" + std::string(key.substr(0, kKeyShownMax)) + "' of namespace '" +
                     std::string(space) + "'";
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
