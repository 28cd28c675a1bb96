#include "client/calls/calls.h"

#include "client/calls/direct_calls.h"
#include "client/calls/durations.h"

#include <string>

#include "proto/base/limits.h"
#include "tidepool/bytes_map.h"

namespace tidepool::internal {
namespace {

// Sources that may answer look-ups in this process. Not used after Close or fork.
struct LocalAnswers {
  LocalAnswers(const Space& space, wire::Opcode opcode, Promise of_call) {
    if (!AbsentCopy::Answers(opcode)) return;
    const bool remembers = space.Promises(Promise::kReadOnly, of_call);
    if ((!remembers && space.absent() == nullptr) || !space.engine()->Usable().ok()) return;
    absent = space.absent();
    if (remembers) round = space.round();
  }

  // Ends the operation if a local source has its answer. `call` keeps the value. A synchronous call
  // may download a copy again, and its `timeout` then shrinks. Null: an asynchronous call.
  bool Answer(const Space& space, std::string_view key, Call* call, Operation* operation,
              std::chrono::milliseconds* timeout) const {
    if (round != nullptr) {
      if (const ReadCache::ReadPtr read = round->reads.Find(key); read != nullptr) {
        operation->result_kind = read->kind;
        operation->version = read->version;
        call->SetResult(*operation, AsBytes(read->bytes));
        call->EndHere(operation, read->found ? StatusCode::kOk : StatusCode::kNotFound);
        return true;
      }
    }
    if (absent == nullptr || !IsSurelyAbsent(space, key, timeout)) return false;
    call->EndHere(operation, StatusCode::kNotFound);
    return true;
  }
  // Notes that the round remembers the reads of this call.
  void Remember(Call* call) const {
    if (round == nullptr) return;
    call->round = round;
    call->writes_before = round->reads.writes();
  }

  bool IsSurelyAbsent(const Space& space, std::string_view key,
                      std::chrono::milliseconds* timeout) const {
    using std::chrono::milliseconds;
    if (timeout == nullptr) return absent->SurelyAbsent(space, key, {});
    const milliseconds left =
        timeout->count() > 0
            ? *timeout
            : std::min(space.engine()->options().connect.call_timeout, kTimeoutMax);
    // A node that does not answer must leave time to ask the owner of the key.
    const milliseconds patience = left / 4;
    const auto begun = std::chrono::steady_clock::now();
    const bool is = absent->SurelyAbsent(space, key, patience);
    const auto took = std::chrono::floor<milliseconds>(std::chrono::steady_clock::now() - begun);
    if (took.count() > 0) *timeout = std::max(left - took, milliseconds(1));
    return is;
  }
  bool any() const { return absent != nullptr || round != nullptr; }

  AbsentCopy* absent = nullptr;
  std::shared_ptr<Round> round;
};

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
    call->TellReceipt();
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
    : space_(wire::InfoOf(opcode).mutates ? &space : nullptr),
      key_(key),
      streamed_(value_bytes > limits::kUnstreamedValueBytesMax) {
  Note();
}

WriteNotice::~WriteNotice() { Note(); }

// A cache may be created between the two notices.
void WriteNotice::Note() const {
  if (space_ != nullptr && space_->minds_writes()) space_->NoteWrite(key_, streamed_);
}

CallRef StartOne(const Space& space, const OperationSpec& spec, Mode mode) {
  const std::size_t value_bytes = spec.value.size() + spec.value_tail.size();
  const bool streams = spec.opcode == wire::Opcode::kPut || spec.opcode == wire::Opcode::kPush;
  if (const Status status = CheckSizes(spec.key, value_bytes, !streams); !status.ok()) {
    return FailedCall(space, status);
  }
  const LocalAnswers local(space, spec.opcode, spec.promise);
  std::chrono::milliseconds timeout = std::min(spec.timeout, kTimeoutMax);
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
  call->set_receipt(spec.receipt);
  Operation& operation = call->operations()[0];
  if (local.any()) {
    if (local.Answer(space, spec.key, call, &operation, mode == Mode::kSync ? &timeout : nullptr)) {
      return StartCall(space, call, mode, timeout, 0);
    }
    local.Remember(call);
  }
  // A synchronous call has tried a direct read before it was made.
  if (mode == Mode::kAsync && spec.opcode == wire::Opcode::kGet && Engine::MayEndAtOnce() &&
      AnswerDirectly(space, spec.key, {.promise = spec.promise}, call)) {
    return StartCall(space, call, mode, timeout, 0);
  }
  operation.queue = state->kind == placement::Kind::kQueue ? QueueOfLane(state, spec.lane)
                                                           : QueueOf(state, spec.key);
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
  if (!spec.waits) return StartCall(space, call, mode, timeout, value_bytes);
  const std::chrono::milliseconds wait = std::min(
      spec.timeout.count() > 0 ? spec.timeout : space.engine()->options().connect.call_timeout,
      kTimeoutMax);
  const bool needs_answer = operation.mutates() || spec.opcode >= wire::Opcode::kGroupJoin;
  operation.AddArgument(wire::Argument::kWaitMs, 0);  // Set when it is sent.
  call->wait_until_ns = DeadlineFor(*space.engine(), wait, 0);
  // A push is this client's own doing, however long the queue has no room for it.
  call->waits_for_others =
      spec.opcode != wire::Opcode::kPush && spec.opcode != wire::Opcode::kPushMany;
  return StartCall(space, call, mode, needs_answer ? wait + kWaitGrace : wait, value_bytes);
}

void RememberReads(Call* call) {
  if (call->round == nullptr) return;
  for (const Operation& operation : call->operations()) {
    const bool found = operation.code == StatusCode::kOk;
    // After other errors, as of a dropped namespace, the key's state is unknown. Keys that are too
    // long were never asked for.
    if (!found && (operation.code != StatusCode::kNotFound || call->HasFailure(operation)))
      continue;
    call->round->reads.Insert(
        AsText(operation.key_view()), call->writes_before,
        {found, operation.result_kind, operation.version, std::string(operation.result)});
  }
}

bool SetKey(const Space& space, Call* call, Operation* operation, std::string_view key, Mode mode) {
  if (key.size() > limits::kKeyBytesMax) return false;
  operation->queue = QueueOf(space.state(), key);
  operation->key = mode == Mode::kAsync ? call->Copy(key) : AsBytes(key).data();
  operation->key_bytes = static_cast<std::uint32_t>(key.size());
  return true;
}

CallRef StartKeys(const Space& space, wire::Opcode opcode, std::span<const std::string_view> keys,
                  Mode mode, const CallOptions& options) {
  std::size_t bytes = 0;
  for (const std::string_view key : keys) bytes += key.size();
  Call* call = Call::Make(keys.size(), mode == Mode::kAsync ? bytes : 0);
  const std::span<Operation> operations = call->operations();
  call->set_receipt(options.receipt);
  std::chrono::milliseconds timeout = std::min(options.timeout, kTimeoutMax);
  const LocalAnswers local(space, opcode, options.promise);
  local.Remember(call);
  // Acts like a WriteNotice for each key.
  const auto note_writes = [&] {
    if (!wire::InfoOf(opcode).mutates || !space.minds_writes()) return;
    for (const std::string_view key : keys) space.NoteWrite(key, false);
  };
  note_writes();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i + kPrefetchAhead < keys.size()) __builtin_prefetch(keys[i + kPrefetchAhead].data());
    operations[i].opcode = opcode;
    if (!SetKey(space, call, &operations[i], keys[i], mode)) {
      call->Refuse(&operations[i], CheckSizes(keys[i], 0, false));
    } else if (local.any()) {
      local.Answer(space, keys[i], call, &operations[i], mode == Mode::kSync ? &timeout : nullptr);
    }
  }
  if (opcode == wire::Opcode::kGet || opcode == wire::Opcode::kBloomContains) {
    ReadManyDirectly(space, keys, options, call);
  }
  CallRef started = StartCall(space, call, mode, timeout, bytes);
  note_writes();
  return started;
}

}  // namespace tidepool::internal
