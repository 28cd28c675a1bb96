#include "tidepool/chain.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "client/calls/calls.h"
#include "client/calls/durations.h"
#include "proto/base/check.h"
#include "proto/wire/chain.h"

namespace tidepool {

static_assert(Chain::kStepsMax == wire::kChainStepsMax);
static_assert(ChainValue::kGiven == wire::kNoStep);
static_assert(static_cast<int>(ChainCondition::Test::kEquals) ==
              static_cast<int>(wire::ChainTest::kEquals));

namespace internal {
namespace {

std::uint8_t Number(wire::Opcode opcode) { return static_cast<std::uint8_t>(opcode); }
std::uint8_t Number(wire::Argument argument) { return static_cast<std::uint8_t>(argument); }

}  // namespace

// From the steps that a program gave to the operation that travels.
class ChainCodec {
 public:
  // kOk, or kInvalidArgument or kFailedPrecondition naming the step.
  static Status Check(const Engine& engine, const SpaceState& space, const Chain& chain) {
    if (chain.steps_.empty() || chain.steps_.size() > Chain::kStepsMax) {
      return Status(StatusCode::kInvalidArgument,
                    "a chain of " + std::to_string(chain.steps_.size()) + " steps",
                    "chains have 1 to " + std::to_string(Chain::kStepsMax) + " steps");
    }
    // Ranges at this moment. The owner checks them again before it executes.
    const auto ranges = space.kind == placement::Kind::kOrdered ? engine.RangesOf(space) : nullptr;
    const auto partition_of = [&](const Chain::Step& step) {
      return ranges != nullptr
                 ? ranges->IndexOf(AsBytes(step.key))
                 : placement::PartitionIndexOf(AsBytes(step.key), space.queues.size());
    };
    for (std::size_t i = 0; i < chain.steps_.size(); ++i) {
      const Chain::Step& step = chain.steps_[i];
      TP_RETURN_IF_ERROR(CheckSizes(step.key, step.value.size(), true));
      if (partition_of(step) == partition_of(chain.steps_[0])) continue;
      if (ranges != nullptr) {
        return Status(StatusCode::kFailedPrecondition,
                      "the keys of steps 0 and " + std::to_string(i) +
                          " lie in different ranges of the ordered namespace '" + space.name + "'",
                      "a chain's keys belong to one range: kvctl namespace describe shows them; a "
                      "namespace made with split 'manual' keeps its ranges");
      }
      return Status(StatusCode::kInvalidArgument,
                    "the keys of steps 0 and " + std::to_string(i) +
                        " are not in one partition of namespace '" + space.name + "'",
                    "give the keys of a chain the same {tag}");
    }
    return {};
  }

  static std::string Encode(const Chain& chain) {
    std::string encoded;
    for (const Chain::Step& from : chain.steps_) {
      wire::ChainStep step;
      step.operation.opcode = static_cast<wire::Opcode>(from.opcode);
      step.operation.condition = static_cast<wire::PutCondition>(from.condition);
      step.operation.value_kind = static_cast<wire::ValueKind>(from.value_kind);
      for (const auto& [argument, word] : from.words) {
        step.operation.set(static_cast<wire::Argument>(argument), word);
      }
      step.operation.key = AsBytes(from.key);
      step.operation.value = AsBytes(from.value);
      step.test = static_cast<wire::ChainTest>(from.test);
      step.tested = from.tested;
      step.required = from.required;
      step.may_fail = from.may_fail;
      step.fed_by = from.fed_by;
      step.expected = AsBytes(from.expected);
      wire::EncodeChainStep(step, &encoded);
    }
    return encoded;
  }

  static CallRef Start(const Namespace& handle, const Chain& chain, Mode mode,
                       const CallOptions& options) {
    const Space& space = *handle.space();
    if (Status status = Check(*space.engine(), *space.state(), chain); !status.ok()) {
      return FailedCall(space, status);
    }
    const std::string encoded = Encode(chain);
    OperationSpec spec;
    spec.opcode = wire::Opcode::kChain;
    spec.key = chain.steps_[0].key;
    spec.value = encoded;
    spec.timeout = options.timeout;
    spec.receipt = options.receipt;
    // Acts like a WriteNotice for each step.
    const auto note_writes = [&] {
      if (!space.minds_writes()) return;
      for (const Chain::Step& step : chain.steps_) space.NoteWrite(step.key, false);
    };
    note_writes();
    CallRef started = StartOne(space, spec, mode);
    note_writes();
    return started;
  }
};

}  // namespace internal

using internal::Number;

ChainStep& ChainStep::If(const ChainCondition& condition) {
  chain_->Test(index_, condition, false);
  return *this;
}

ChainStep& ChainStep::Require(const ChainCondition& condition) {
  chain_->Test(index_, condition, true);
  return *this;
}

ChainStep& ChainStep::MayFail() {
  chain_->steps_[index_].may_fail = true;
  return *this;
}

void Chain::Test(std::uint8_t index, const ChainCondition& condition, bool required) {
  // A single excess step stands for all of them. The execution of the chain is refused.
  if (steps_.size() > kStepsMax) return;
  TP_CHECK(condition.step() < index);
  Step& step = steps_[index];
  step.tested = condition.step();
  step.test = static_cast<std::uint8_t>(condition.test());
  step.expected = condition.expected();
  step.required = required;
  steps_[condition.step()].may_fail = true;
}

ChainStep Chain::Add(std::uint8_t opcode, std::string_view key, Step step) {
  step.opcode = opcode;
  step.key = key;
  // A single excess step makes the execution of the chain fail.
  if (steps_.size() <= kStepsMax) steps_.push_back(std::move(step));
  return {this, static_cast<std::uint8_t>(steps_.size() - 1)};
}

ChainStep Chain::AddFetch(std::uint8_t opcode, std::string_view key, const ChainNumber& number) {
  Step step;
  step.value_kind = static_cast<std::uint8_t>(wire::ValueKind::kI64);
  step.fed_by = number.step();
  step.words.emplace_back(Number(wire::Argument::kOperand),
                          static_cast<std::uint64_t>(number.number()));
  return Add(opcode, key, std::move(step));
}

ChainStep Chain::AddFetchF64(std::uint8_t opcode, std::string_view key,
                             const ChainNumberF64& number) {
  Step step;
  step.value_kind = static_cast<std::uint8_t>(wire::ValueKind::kF64);
  step.fed_by = number.step();
  step.words.emplace_back(Number(wire::Argument::kOperand),
                          std::bit_cast<std::uint64_t>(number.number()));
  return Add(opcode, key, std::move(step));
}

ChainStep Chain::Get(std::string_view key) { return Add(Number(wire::Opcode::kGet), key, {}); }
ChainStep Chain::Take(std::string_view key) { return Add(Number(wire::Opcode::kTake), key, {}); }
ChainStep Chain::Contains(std::string_view key) {
  return Add(Number(wire::Opcode::kContains), key, {});
}

ChainStep Chain::Put(std::string_view key, const ChainValue& value, const PutOptions& options) {
  Step step;
  step.value = value.bytes();
  step.fed_by = value.step();
  step.condition = static_cast<std::uint8_t>(options.condition);
  step.value_kind = static_cast<std::uint8_t>(options.kind);
  if (options.condition == PutCondition::kIfVersion) {
    step.words.emplace_back(Number(wire::Argument::kVersion), options.if_version);
  }
  if (options.ttl.has_value()) {
    step.words.emplace_back(Number(wire::Argument::kTtlMs), internal::ToTtlMs(*options.ttl));
  }
  return Add(Number(wire::Opcode::kPut), key, std::move(step));
}

ChainStep Chain::Delete(std::string_view key, const DeleteOptions& options) {
  Step step;
  if (options.if_version != 0) {
    step.words.emplace_back(Number(wire::Argument::kVersion), options.if_version);
  }
  return Add(Number(wire::Opcode::kDelete), key, std::move(step));
}

ChainStep Chain::Append(std::string_view key, const ChainValue& suffix) {
  Step step;
  step.value = suffix.bytes();
  step.fed_by = suffix.step();
  return Add(Number(wire::Opcode::kAppend), key, std::move(step));
}

ChainStep Chain::CompareAndSwap(std::string_view key, std::string_view expected,
                                std::string_view desired) {
  Step step;
  step.value = std::string(expected).append(desired);
  step.words.emplace_back(Number(wire::Argument::kExpectedBytes), expected.size());
  return Add(Number(wire::Opcode::kCompareAndSwap), key, std::move(step));
}

ChainStep Chain::FetchAdd(std::string_view key, const ChainNumber& by) {
  return AddFetch(Number(wire::Opcode::kFetchAdd), key, by);
}
ChainStep Chain::FetchAnd(std::string_view key, const ChainNumber& mask) {
  return AddFetch(Number(wire::Opcode::kFetchAnd), key, mask);
}
ChainStep Chain::FetchOr(std::string_view key, const ChainNumber& bits) {
  return AddFetch(Number(wire::Opcode::kFetchOr), key, bits);
}
ChainStep Chain::FetchXor(std::string_view key, const ChainNumber& bits) {
  return AddFetch(Number(wire::Opcode::kFetchXor), key, bits);
}
ChainStep Chain::FetchMin(std::string_view key, const ChainNumber& with) {
  return AddFetch(Number(wire::Opcode::kFetchMin), key, with);
}
ChainStep Chain::FetchMax(std::string_view key, const ChainNumber& with) {
  return AddFetch(Number(wire::Opcode::kFetchMax), key, with);
}

ChainStep Chain::FetchAddF64(std::string_view key, const ChainNumberF64& by) {
  return AddFetchF64(Number(wire::Opcode::kFetchAdd), key, by);
}
ChainStep Chain::FetchMinF64(std::string_view key, const ChainNumberF64& with) {
  return AddFetchF64(Number(wire::Opcode::kFetchMin), key, with);
}
ChainStep Chain::FetchMaxF64(std::string_view key, const ChainNumberF64& with) {
  return AddFetchF64(Number(wire::Opcode::kFetchMax), key, with);
}

ChainStep Chain::Ttl(std::string_view key) { return Add(Number(wire::Opcode::kTtl), key, {}); }

ChainStep Chain::Expire(std::string_view key, std::chrono::milliseconds ttl) {
  Step step;
  step.words.emplace_back(Number(wire::Argument::kTtlMs), internal::ToTtlMs(ttl));
  return Add(Number(wire::Opcode::kExpire), key, std::move(step));
}

Result<ChainResult> ChainResult::From(internal::CallRef call) {
  const internal::Operation& operation = call.get()->operations()[0];
  if (operation.code != StatusCode::kOk) return call.get()->StatusOf(operation);
  const auto outcomes = wire::DecodeChainOutcomes(AsBytes(operation.result));
  if (!outcomes.ok()) return outcomes.status();
  ChainResult result;
  for (const wire::ChainOutcome& outcome : *outcomes) {
    Step& step = result.steps_.emplace_back();
    const bool ok = outcome.code == StatusCode::kOk;
    if (!ok) step.status = Status(outcome.code, std::string(AsText(outcome.value)));
    step.version = outcome.has_version ? outcome.version.value() : 0;
    if (ok) {
      step.value = {std::string(AsText(outcome.value)), static_cast<ValueKind>(outcome.value_kind),
                    step.version};
    }
    step.omitted = outcome.omitted;
    step.value_bytes = outcome.omitted ? outcome.number : step.value.bytes.size();
    if (outcome.has_number && !outcome.omitted) {
      if (outcome.value_kind == wire::ValueKind::kF64) {
        step.number_f64 = std::bit_cast<double>(outcome.number);
      } else {
        step.number = static_cast<std::int64_t>(outcome.number);
        step.ttl = internal::FromTtlMs(outcome.number);
      }
    }
  }
  // The answer's number says which step ended the chain.
  if (operation.number < result.steps_.size()) {
    const Status& why = result.steps_[operation.number].status;
    result.status_ = Status(why.code(), "step " + std::to_string(operation.number) +
                                            " ended the chain: " + std::string(why.what()));
  }
  return result;
}

const ChainResult::Step& ChainResult::operator[](std::size_t i) const {
  TP_CHECK(i < steps_.size());
  return steps_[i];
}

Result<ChainResult> BytesMap::Execute(const Chain& chain, const CallOptions& options) const {
  return internal::Access::From<ChainResult>(
      internal::ChainCodec::Start(space_, chain, internal::Mode::kSync, options));
}
Future<ChainResult> BytesMap::ExecuteAsync(const Chain& chain, const CallOptions& options) const {
  return internal::Access::FutureOf(
      internal::ChainCodec::Start(space_, chain, internal::Mode::kAsync, options),
      &internal::Access::From<ChainResult>);
}

}  // namespace tidepool
