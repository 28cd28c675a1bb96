#include "client/calls.h"

#include <string>

#include "proto/base/limits.h"

namespace tidepool::internal {
namespace {

// Look-ups that a copy of the prefilter has answered.
CallRef AbsentCall(const Space& space) {
  Call* call = Call::Make(1, 0);
  call->engine = space.engine().get();
  call->space_name = space.state()->name;
  call->operations()[0].code = StatusCode::kNotFound;
  call->operations()[0].state = Operation::State::kEnded;
  call->left = 0;
  call->MarkDone();
  return CallRef(call);
}

// Whether a copy of the prefilter may answer: not for a client that was closed or forked.
bool AsksCopy(const Space& space, wire::Opcode opcode) {
  return space.absent() != nullptr && AbsentCopy::Answers(opcode) && space.engine()->Usable().ok();
}

}  // namespace

Status CheckSizes(std::string_view key, std::size_t value_bytes, bool unstreamed) {
  if (key.size() > limits::kKeyBytesMax) {
    return Status(StatusCode::kInvalidArgument, "a key of " + std::to_string(key.size()) + " bytes",
                  "keys have at most " + std::to_string(limits::kKeyBytesMax) + " bytes");
  }
  const std::uint64_t bytes_max =
      unstreamed ? limits::kUnstreamedValueBytesMax : limits::kValueBytesMax;
  if (value_bytes > bytes_max) {
    return Status(StatusCode::kInvalidArgument,
                  "a value of " + std::to_string(value_bytes) + " bytes",
                  "here values have at most " + std::to_string(bytes_max) + " bytes");
  }
  return {};
}

CallRef StartCall(const Space& space, Call* call, Mode mode, std::chrono::milliseconds timeout,
                  std::size_t bytes, const placement::Ranges* packed_by) {
  CallRef handle(call);
  Engine& engine = *space.engine();
  call->space_name = space.state()->name;
  call->deadline_ns = DeadlineFor(engine, timeout, bytes);
  call->deadline_extends = timeout.count() <= 0;
  if (mode == Mode::kAsync) {
    call->keeps_engine = space.engine();
    engine.Submit(call, false, packed_by);
  } else {
    engine.Submit(call, true, packed_by);
    engine.Wait(call, ~0ull);
  }
  return handle;
}

CallRef FailedCall(const Space& space, const Status& why) {
  Call* call = Call::Make(1, 0);
  call->engine = space.engine().get();
  call->space_name = space.state()->name;
  call->operations()[0].code = why.code();
  call->SetFailure(call->operations()[0], why);
  call->left = 0;
  call->MarkDone();
  return CallRef(call);
}

WriteNotice::WriteNotice(const Space& space, wire::Opcode opcode, std::string_view key,
                         std::size_t value_bytes)
    : absent_(wire::InfoOf(opcode).mutates ? space.absent() : nullptr),
      key_(key),
      streamed_(value_bytes > limits::kUnstreamedValueBytesMax) {
  if (absent_ != nullptr) absent_->NoteWrite(key_, streamed_);
}

WriteNotice::~WriteNotice() {
  if (absent_ != nullptr) absent_->NoteWrite(key_, streamed_);
}

CallRef StartOne(const Space& space, const OperationSpec& spec, Mode mode) {
  const std::size_t value_bytes = spec.value.size() + spec.value_tail.size();
  const bool streams = spec.opcode == wire::Opcode::kPut || spec.opcode == wire::Opcode::kPush;
  if (const Status status = CheckSizes(spec.key, value_bytes, !streams); !status.ok()) {
    return FailedCall(space, status);
  }
  if (AsksCopy(space, spec.opcode) && space.absent()->SurelyAbsent(space, spec.key)) {
    return AbsentCall(space);
  }
  const WriteNotice notice(space, spec.opcode, spec.key, value_bytes);
  SpaceState* state = space.state();
  if (spec.waits) {
    state = space.engine()->FindSpace(state->id, Traffic::kWaiting);
    if (state == nullptr) {
      return FailedCall(space, Status(StatusCode::kNotFound, "the namespace was dropped"));
    }
  }
  const bool copies = mode == Mode::kAsync;
  const bool joins = !spec.value_tail.empty();
  Call* call = Call::Make(1, (copies ? spec.key.size() : 0) + (copies || joins ? value_bytes : 0));
  Operation& operation = call->operations()[0];
  operation.queue = QueueOf(state, spec.key);
  operation.opcode = spec.opcode;
  operation.condition = spec.condition;
  operation.value_kind = spec.value_kind;
  operation.key = copies ? call->Copy(spec.key) : AsBytes(spec.key).data();
  operation.key_bytes = static_cast<std::uint32_t>(spec.key.size());
  operation.value = copies || joins ? call->Copy(spec.value) : AsBytes(spec.value).data();
  if (joins) call->Copy(spec.value_tail);
  operation.value_bytes = static_cast<std::uint32_t>(value_bytes);
  operation.streamed = streams && value_bytes > limits::kUnstreamedValueBytesMax;
  for (std::uint32_t i = 0; i < spec.word_count; ++i) {
    operation.AddArgument(spec.words[i].argument, spec.words[i].word);
  }
  if (!spec.waits) return StartCall(space, call, mode, spec.timeout, value_bytes);
  const std::chrono::milliseconds wait =
      spec.timeout.count() > 0 ? spec.timeout : space.engine()->options().connect.call_timeout;
  const bool needs_answer = operation.mutates() || spec.opcode >= wire::Opcode::kGroupJoin;
  operation.AddArgument(wire::Argument::kWaitMs, 0);  // Set when it is sent.
  call->wait_until_ns = DeadlineFor(*space.engine(), wait, 0);
  return StartCall(space, call, mode, needs_answer ? wait + kWaitGrace : wait, value_bytes);
}

bool SetKey(const Space& space, Call* call, Operation* operation, std::string_view key, Mode mode) {
  if (key.size() > limits::kKeyBytesMax) return false;
  operation->queue = QueueOf(space.state(), key);
  operation->key = mode == Mode::kAsync ? call->Copy(key) : AsBytes(key).data();
  operation->key_bytes = static_cast<std::uint32_t>(key.size());
  return true;
}

CallRef StartKeys(const Space& space, wire::Opcode opcode, std::span<const std::string_view> keys,
                  Mode mode, std::chrono::milliseconds timeout) {
  std::size_t bytes = 0;
  for (const std::string_view key : keys) bytes += key.size();
  Call* call = Call::Make(keys.size(), mode == Mode::kAsync ? bytes : 0);
  const std::span<Operation> operations = call->operations();
  const bool asks_copy = AsksCopy(space, opcode);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i + kPrefetchAhead < keys.size()) __builtin_prefetch(keys[i + kPrefetchAhead].data());
    operations[i].opcode = opcode;
    if (!SetKey(space, call, &operations[i], keys[i], mode)) {
      call->Refuse(&operations[i], CheckSizes(keys[i], 0, false));
    } else if (asks_copy && space.absent()->SurelyAbsent(space, keys[i])) {
      call->EndAsAbsent(&operations[i]);
    }
  }
  return StartCall(space, call, mode, timeout, bytes);
}

}  // namespace tidepool::internal
