#include "daemon/ops/chain_ops.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "proto/base/key_hash.h"
#include "proto/wire/chain.h"

namespace tidepool::daemon {
namespace {

using wire::ChainOutcome;
using wire::ChainStep;
using wire::ChainTest;

ChainOutcome Failure(StatusCode code, std::string_view text) {
  ChainOutcome outcome;
  outcome.code = code;
  outcome.value = AsBytes(text);
  return outcome;
}

ChainOutcome OutcomeOf(const Reply& reply) {
  const wire::Answer& answer = reply.answer;
  ChainOutcome outcome;
  outcome.code = answer.code;
  outcome.value_kind = answer.value_kind;
  outcome.has_version = answer.has_version;
  outcome.version = answer.version;
  outcome.has_number = answer.has_number;
  outcome.number = answer.number;
  outcome.value = answer.value;
  const storage::StoredValue& stored = reply.stored;
  if (stored.extent == nullptr) {
    if (stored.value_bytes > 0) outcome.value = stored.value;
  } else {
    outcome.omitted = outcome.has_number = true;
    outcome.number = stored.value_bytes;
  }
  return outcome;
}

// Runs the steps of one chain. Results are written at once, so that a later step can use them: the
// store's views end with its next change.
class ChainRun {
 public:
  ChainRun(const OperationContext& context, const std::vector<ChainStep>& steps, MutableBytes to)
      : context_(context), steps_(steps), writer_(to, steps.size()), ended_at_(steps.size()) {
    outcomes_.reserve(steps.size());
  }

  void Run() {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const ChainStep& step = steps_[i];
      ChainOutcome outcome;
      outcome.code = StatusCode::kCancelled;
      if (ended_at_ == steps_.size()) {
        if (Holds(step)) {
          outcome = RunStep(step);
          if (outcome.code != StatusCode::kOk && !step.may_fail) ended_at_ = i;
        } else if (step.required) {
          outcome = Failure(StatusCode::kFailedPrecondition, "the step's condition does not hold");
          ended_at_ = i;
        }
      }
      outcomes_.push_back(outcome);
      outcomes_.back().value = writer_.Add(outcome);
      outcomes_.back().omitted |= outcome.value.size() > outcomes_.back().value.size();
    }
  }

  Bytes written() const { return writer_.written(); }
  // Returns the step that ended the chain; the number of steps if none did.
  std::size_t ended_at() const { return ended_at_; }

 private:
  bool Holds(const ChainStep& step) const {
    if (step.test == ChainTest::kNone) return true;
    const ChainOutcome& tested = outcomes_[step.tested];
    switch (step.test) {
      case ChainTest::kNone:
      case ChainTest::kOk:
        return tested.code == StatusCode::kOk;
      case ChainTest::kNotFound:
        return tested.code == StatusCode::kNotFound;
      case ChainTest::kEquals:
        return tested.code == StatusCode::kOk && !tested.omitted &&
               std::ranges::equal(tested.value, step.expected);
    }
    return false;
  }

  ChainOutcome RunStep(const ChainStep& step) {
    wire::Operation operation = step.operation;
    if (step.fed_by != wire::kNoStep) {
      const ChainOutcome& source = outcomes_[step.fed_by];
      if (source.code != StatusCode::kOk) {
        return Failure(StatusCode::kFailedPrecondition,
                       "the step that it takes its value of has none");
      }
      if (source.omitted) {
        return Failure(StatusCode::kOutOfRange,
                       "values that are handed on in a chain have together at most 32 KiB");
      }
      if (wire::TakesFedValue(operation.opcode)) {
        operation.value = source.value;
        operation.value_kind = source.value_kind;
      } else if (!FeedOperand(source, &operation)) {
        return Failure(StatusCode::kInvalidArgument,
                       "the step that it takes its operand of returned no such number");
      }
    }
    Reply reply;
    context_.executor->Execute({.partition = context_.partition,
                                .operation = operation,
                                .hash = KeyHash(operation.key),
                                .now_ms = context_.now_ms,
                                .store = context_.store,
                                .taken_bytes_max = writer_.ValueRoom()},
                               &reply);
    return OutcomeOf(reply);
  }

  // A number that the step returned, or the counter that it read.
  static bool FeedOperand(const ChainOutcome& source, wire::Operation* operation) {
    if (source.value.size() == sizeof(std::uint64_t)) {
      if (source.value_kind != operation->value_kind) return false;
      operation->set(wire::Argument::kOperand, LoadUnaligned<std::uint64_t>(source.value.data()));
      return true;
    }
    if (!source.has_number) return false;
    // Integers and bits of a double look the same.
    const bool is_f64 = source.value_kind == wire::ValueKind::kF64;
    if (is_f64 != (operation->value_kind == wire::ValueKind::kF64)) return false;
    operation->set(wire::Argument::kOperand, source.number);
    return true;
  }

  const OperationContext& context_;
  const std::vector<ChainStep>& steps_;
  wire::ChainOutcomeWriter writer_;
  std::vector<ChainOutcome> outcomes_;
  std::size_t ended_at_;
};

void HandleChain(const OperationContext& context, Reply* reply) {
  if (context.executor == nullptr) {
    reply->answer.code = StatusCode::kUnimplemented;
    return;
  }
  std::vector<ChainStep> steps;
  if (!wire::DecodeChain(context.operation.value, &steps).ok()) {
    return Refuse(reply, StatusCode::kInvalidArgument, "malformed chain");
  }
  // Before the first step: a chain is applied as a whole.
  if (context.partition.kind() == Kind::kOrdered) {
    for (const ChainStep& step : steps) {
      if (context.partition.bounds().Holds(step.operation.key)) continue;
      return Refuse(reply, StatusCode::kFailedPrecondition,
                    "the keys of the chain lie in different ranges of the namespace; nothing of it "
                    "was done; see kvctl namespace describe");
    }
  }
  // A fixed size, not the room in this answer, so that repetitions omit the same values.
  const MutableBytes scratch =
      context.scratch.first(std::min(context.scratch.size(), limits::kUnstreamedValueBytesMax));
  if (scratch.size() < limits::kUnstreamedValueBytesMax) {
    return Refuse(reply, StatusCode::kResourceExhausted,
                  "the client leaves no room for the outcomes");
  }
  // Meets all wait conditions of the steps before the first step changes anything.
  for (const ChainStep& step : steps) {
    context.partition.hash().Touch(step.operation.key, KeyHash(step.operation.key));
  }
  if (context.store.blocked()) return;
  if (constexpr std::uint64_t kBlocks = storage::kOperationBlocks + 1;
      !context.store.has_room() && context.store.MayWait({.blocks = kBlocks, .waits = nullptr})) {
    // It would end halfway for memory that will be there in a moment.
    context.store.NoteRefused(kBlocks);
    reply->answer.code = StatusCode::kResourceExhausted;
    return;
  }
  // Readers of the shared memory wait, so they never see half of the chain.
  context.partition.SetBusy(true);
  ChainRun run(context, steps, scratch);
  run.Run();
  context.partition.SetBusy(false);
  reply->answer.value = run.written();
  reply->answer.has_number = true;
  reply->answer.number = run.ended_at();
}

constexpr HandlerEntry kChainHandlers[] = {{wire::Opcode::kChain, HandleChain}};

}  // namespace

std::span<const HandlerEntry> ChainHandlers() { return kChainHandlers; }

}  // namespace tidepool::daemon
