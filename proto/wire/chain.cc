#include "proto/wire/chain.h"

#include <algorithm>
#include <cstring>

#include "proto/base/check.h"

namespace tidepool::wire {
namespace {

constexpr std::uint8_t kRequired = 1;
constexpr std::uint8_t kMayFail = 2;

constexpr std::uint16_t kOutcomeHasVersion = 1;
constexpr std::uint16_t kOutcomeHasNumber = 2;
constexpr std::uint16_t kOmitted = 4;

struct StepHeader {
  std::uint8_t test;
  std::uint8_t tested;
  std::uint8_t flags;
  std::uint8_t fed_by;
  std::uint32_t expected_bytes;
};
static_assert(sizeof(StepHeader) == kChainStepBytes);

struct OutcomeHeader {
  std::uint8_t code;
  std::uint8_t value_kind;
  std::uint16_t flags;
  std::uint32_t value_bytes;
  std::uint64_t version;
  std::uint64_t number;
};
static_assert(sizeof(OutcomeHeader) == kChainOutcomeBytes);

Status MalformedChain(const char* what) {
  return Status(StatusCode::kInvalidArgument, std::string("malformed chain: ") + what);
}

Status CheckStep(const ChainStep& step, std::size_t index) {
  const Operation& operation = step.operation;
  if (!MayBeStep(operation.opcode) || operation.has(Argument::kUpload)) {
    return MalformedChain("an operation that no chain takes");
  }
  if ((step.test == ChainTest::kNone) != (step.tested == kNoStep))
    return MalformedChain("condition");
  if (step.tested != kNoStep && step.tested >= index)
    return MalformedChain("condition on a later step");
  if (step.fed_by == kNoStep) return OkStatus();
  if (step.fed_by >= index) return MalformedChain("value of a later step");
  if (!TakesFedValue(operation.opcode) && !TakesFedOperand(operation.opcode)) {
    return MalformedChain("an operation that takes no value of another");
  }
  return OkStatus();
}

}  // namespace

bool MayBeStep(Opcode opcode) {
  switch (opcode) {
    case Opcode::kGet:
    case Opcode::kDelete:
    case Opcode::kContains:
    case Opcode::kTake:
    case Opcode::kCompareAndSwap:
    case Opcode::kExpire:
    case Opcode::kTtl:
      return true;
    default:
      return TakesFedValue(opcode) || TakesFedOperand(opcode);
  }
}

bool TakesFedValue(Opcode opcode) { return opcode == Opcode::kPut || opcode == Opcode::kAppend; }

bool TakesFedOperand(Opcode opcode) {
  return opcode >= Opcode::kFetchAdd && opcode <= Opcode::kFetchMax;
}

void EncodeChainStep(const ChainStep& step, std::string* to) {
  StepHeader header{};
  header.test = static_cast<std::uint8_t>(step.test);
  header.tested = step.tested;
  header.flags =
      static_cast<std::uint8_t>((step.required ? kRequired : 0) | (step.may_fail ? kMayFail : 0));
  header.fed_by = step.fed_by;
  header.expected_bytes = static_cast<std::uint32_t>(step.expected.size());
  const std::size_t at = to->size();
  to->resize(at + sizeof header + step.expected.size() + step.operation.bytes());
  auto* bytes = reinterpret_cast<std::byte*>(to->data() + at);
  StoreUnaligned(bytes, header);
  bytes += sizeof header;
  std::copy(step.expected.begin(), step.expected.end(), bytes);
  EncodeOperation(step.operation, bytes + step.expected.size());
}

Status DecodeChain(Bytes from, std::vector<ChainStep>* steps) {
  steps->clear();
  while (!from.empty()) {
    if (steps->size() == kChainStepsMax) return MalformedChain("too many steps");
    if (from.size() < sizeof(StepHeader)) return MalformedChain("step cut off");
    const auto header = LoadUnaligned<StepHeader>(from.data());
    from = from.subspan(sizeof header);
    if (header.test > static_cast<int>(ChainTest::kEquals)) return MalformedChain("condition");
    if ((header.flags & ~(kRequired | kMayFail)) != 0) return MalformedChain("flags");
    if (header.expected_bytes > from.size()) return MalformedChain("expected value cut off");
    ChainStep& step = steps->emplace_back();
    step.test = static_cast<ChainTest>(header.test);
    step.tested = header.tested;
    step.required = (header.flags & kRequired) != 0;
    step.may_fail = (header.flags & kMayFail) != 0;
    step.fed_by = header.fed_by;
    step.expected = from.first(header.expected_bytes);
    from = from.subspan(header.expected_bytes);
    TP_RETURN_IF_ERROR(DecodeOperation(&from, &step.operation));
    TP_RETURN_IF_ERROR(CheckStep(step, steps->size() - 1));
  }
  return steps->empty() ? MalformedChain("no steps") : OkStatus();
}

Bytes ChainOutcomeWriter::Add(ChainOutcome outcome) {
  TP_DCHECK(left_ > 0);
  const std::size_t room = ValueRoom();
  --left_;
  if (outcome.value.size() > room) {
    outcome.omitted = true;
    outcome.has_number = true;
    outcome.number = outcome.value.size();
    outcome.value = {};
  }
  OutcomeHeader header{};
  header.code = static_cast<std::uint8_t>(outcome.code);
  header.value_kind = static_cast<std::uint8_t>(outcome.value_kind);
  header.flags = static_cast<std::uint16_t>((outcome.has_version ? kOutcomeHasVersion : 0) |
                                            (outcome.has_number ? kOutcomeHasNumber : 0) |
                                            (outcome.omitted ? kOmitted : 0));
  header.value_bytes = static_cast<std::uint32_t>(outcome.value.size());
  header.version = outcome.version.value();
  header.number = outcome.number;
  std::byte* at = to_.data() + used_;
  StoreUnaligned(at, header);
  at += sizeof header;
  if (!outcome.value.empty()) std::memcpy(at, outcome.value.data(), outcome.value.size());
  used_ += sizeof header + outcome.value.size();
  return {at, outcome.value.size()};
}

Result<std::vector<ChainOutcome>> DecodeChainOutcomes(Bytes from) {
  std::vector<ChainOutcome> outcomes;
  while (!from.empty()) {
    if (from.size() < sizeof(OutcomeHeader)) return MalformedChain("outcome cut off");
    const auto header = LoadUnaligned<OutcomeHeader>(from.data());
    from = from.subspan(sizeof header);
    if (header.value_bytes > from.size()) return MalformedChain("outcome's value cut off");
    if (header.code >= kStatusCodeCount || header.value_kind > static_cast<int>(ValueKind::kF64)) {
      return MalformedChain("outcome");
    }
    ChainOutcome& outcome = outcomes.emplace_back();
    outcome.code = static_cast<StatusCode>(header.code);
    outcome.value_kind = static_cast<ValueKind>(header.value_kind);
    outcome.has_version = (header.flags & kOutcomeHasVersion) != 0;
    outcome.has_number = (header.flags & kOutcomeHasNumber) != 0;
    outcome.omitted = (header.flags & kOmitted) != 0;
    outcome.version = Lsn(header.version);
    outcome.number = header.number;
    outcome.value = from.first(header.value_bytes);
    from = from.subspan(header.value_bytes);
  }
  return outcomes;
}

}  // namespace tidepool::wire
