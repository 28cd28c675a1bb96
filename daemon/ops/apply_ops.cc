#include "daemon/ops/apply_ops.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "daemon/ops/functions.h"
#include "daemon/ops/listed_record.h"
#include "proto/base/limits.h"

namespace tidepool::daemon {
namespace {

using storage::HashOutcome;
using storage::UpdateDecision;
using wire::Argument;

static_assert(limits::kFunctionValueBytesMax == TIDEPOOL_FUNCTION_VALUE_BYTES_MAX);
static_assert(limits::kFunctionResultBytesMax == TIDEPOOL_FUNCTION_RESULT_BYTES_MAX);
static_assert(static_cast<int>(wire::ValueKind::kI64) == TIDEPOOL_I64);
static_assert(static_cast<int>(wire::ValueKind::kF64) == TIDEPOOL_F64);

// Buffers for functions. One per core thread, so an operation allocates nothing.
struct Room {
  alignas(64) std::array<std::byte, limits::kFunctionValueBytesMax> value;
  alignas(64) std::array<std::byte, limits::kFunctionResultBytesMax> result;
};
thread_local Room g_room;

bool Outside(const void* bytes, std::size_t count, std::size_t count_max) {
  return count > count_max || (bytes == nullptr && count != 0);
}

// One application: from the decoded operation to the change of the record and the answer.
class Application {
 public:
  Application(const OperationContext& context, Functions::Apply apply, Bytes argument, Reply* reply)
      : context_(context), apply_(apply), argument_(argument), reply_(reply) {}

  UpdateDecision Decide(const HashOutcome& present) {
    if (present.extent != nullptr || present.value_bytes > limits::kFunctionValueBytesMax) {
      return Refuse(StatusCode::kFailedPrecondition,
                    "the value is above 32 KiB, more than functions take");
    }
    tidepool_update update{};
    update.key = context_.operation.key.data();
    update.key_bytes = context_.operation.key.size();
    update.value = present.value.data();
    update.value_bytes = present.value.size();
    update.value_kind = static_cast<int>(ValueKindOf(present.value_flags));
    update.present = present.code == StatusCode::kOk ? 1 : 0;
    update.argument = argument_.data();
    update.argument_bytes = argument_.size();
    update.value_room = g_room.value.data();
    update.result_room = g_room.result.data();
    return Conclude(apply_(&update), update);
  }

 private:
  UpdateDecision Refuse(StatusCode code, std::string_view text) {
    reply_->answer.code = code;
    reply_->answer.value = AsBytes(text);
    return {};
  }

  UpdateDecision Conclude(int verdict, const tidepool_update& update) {
    if (Outside(update.result, update.result_bytes, limits::kFunctionResultBytesMax)) {
      return Refuse(StatusCode::kOutOfRange, "the function's result is above 4 KiB");
    }
    if (update.result_bytes > context_.scratch.size()) {
      return Refuse(StatusCode::kOutOfRange,
                    "the function's result has no room in this answer; nothing was changed: ask "
                    "for fewer at once");
    }
    // Before the record changes: it may be a view of the value.
    if (update.result_bytes > 0) {
      std::memcpy(context_.scratch.data(), update.result, update.result_bytes);
    }
    const Bytes result = context_.scratch.first(update.result_bytes);
    reply_->answer.value = result;
    switch (verdict) {
      case TIDEPOOL_KEEP:
        return {};
      case TIDEPOOL_DELETE:
        return {UpdateDecision::What::kDelete, {}, 0};
      case TIDEPOOL_STORE:
        break;
      case TIDEPOOL_REFUSE:
        return Refuse(StatusCode::kInvalidArgument,
                      result.empty() ? "the function refuses" : AsText(result));
      default:
        return Refuse(StatusCode::kInternal, "the function returned no verdict");
    }
    if (Outside(update.new_value, update.new_value_bytes, limits::kFunctionValueBytesMax)) {
      return Refuse(StatusCode::kOutOfRange, "the function's new value is above 32 KiB");
    }
    std::uint8_t flags = 0;
    if (update.new_value_kind == TIDEPOOL_I64) flags = storage::kRecordI64;
    if (update.new_value_kind == TIDEPOOL_F64) flags = storage::kRecordF64;
    if (update.new_value_kind < TIDEPOOL_BYTES || update.new_value_kind > TIDEPOOL_F64 ||
        (flags != 0 && update.new_value_bytes != sizeof(std::uint64_t))) {
      return Refuse(StatusCode::kInternal, "the function made a number that has not 8 bytes");
    }
    return {UpdateDecision::What::kStore,
            {static_cast<const std::byte*>(update.new_value), update.new_value_bytes},
            flags};
  }

  const OperationContext& context_;
  const Functions::Apply apply_;
  const Bytes argument_;
  Reply* const reply_;
};

void UnknownFunction(const OperationContext& context, std::string_view name, Reply* reply) {
  constexpr std::size_t kNameShownMax = 64;
  const std::string text = "this node has no function '" +
                           std::string(name.substr(0, kNameShownMax)) +
                           "'; it has: " + context.functions->Names();
  const std::size_t bytes = std::min(text.size(), context.scratch.size());
  std::memcpy(context.scratch.data(), text.data(), bytes);
  reply->answer.code = StatusCode::kUnimplemented;
  reply->answer.value = context.scratch.first(bytes);
}

void HandleApply(const OperationContext& context, Reply* reply) {
  const wire::Operation& operation = context.operation;
  const auto name_bytes =
      static_cast<std::size_t>(operation.get(Argument::kExpectedBytes));  // Checked by the decoder.
  const std::string_view name = AsText(operation.value.first(name_bytes));
  if (context.functions == nullptr) {
    reply->answer.code = StatusCode::kUnimplemented;
    return;
  }
  const Functions::Apply apply = context.functions->Find(name);
  if (apply == nullptr) return UnknownFunction(context, name, reply);
  Application application(context, apply, operation.value.subspan(name_bytes), reply);
  const HashOutcome outcome = context.partition.hash().Update(
      operation.key, context.hash,
      [&](const HashOutcome& present) { return application.Decide(present); }, context.now_ms);
  // Why the function was not applied has been said.
  if (reply->answer.code == StatusCode::kOk) reply->answer.code = outcome.code;
  if (outcome.code != StatusCode::kOk) reply->answer.value = {};
  reply->answer.version = outcome.version;
  reply->answer.has_version = outcome.version != Lsn();
}

constexpr HandlerEntry kApplyHandlers[] = {{wire::Opcode::kApply, HandleApply}};

}  // namespace

std::span<const HandlerEntry> ApplyHandlers() { return kApplyHandlers; }

}  // namespace tidepool::daemon
