// A chain: several operations on keys of a partition that take effect together. A step may depend
// on the result of an earlier step and take its value. A chain travels as the value of an
// operation.
//
//   client/api/chain --ChainWriter--> Operation kChain => daemon/ops/chain_ops (ChainReader)
//   daemon/ops/chain_ops --ChainResultWriter--> answer's value => client/api/chain
//   (LoadChainResults)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/base/bytes.h"
#include "proto/base/result.h"
#include "proto/wire/group.h"

namespace tidepool::wire {

inline constexpr std::size_t kChainStepsMax = 64;
inline constexpr std::uint8_t kNoStep = 0xff;

// A step's test of an earlier step.
enum class ChainTest : std::uint8_t {
  kNone = 0,
  kOk = 1,
  kNotFound = 2,
  kEquals = 3,  // Its value is `expected`.
};

struct ChainStep {
  Operation operation;
  ChainTest test = ChainTest::kNone;
  std::uint8_t tested = kNoStep;  // The earlier step that is tested.
  bool required = false;  // If the test fails, the chain ends; otherwise only this step is left
                          // out.
  bool may_fail = false;  // The chain continues after a failure of this step.
  std::uint8_t fed_by = kNoStep;  // The step whose result becomes this step's value or operand.
  Bytes expected;
};

// {test:1, tested:1, flags:1, fed by:1, expected:4}, expected bytes, the operation as in a group.
inline constexpr std::size_t kChainStepBytes = 8;

// Returns whether a step may have this opcode: an operation on a key, answered at once, with a
// value in the frame.
bool MayBeStep(Opcode opcode);
// Returns whether a value, or an operand, can come from an earlier step.
bool TakesFedValue(Opcode opcode);
bool TakesFedOperand(Opcode opcode);

// Appends to `to`.
void EncodeChainStep(const ChainStep& step, std::string* to);
// Decodes 1 to kChainStepsMax steps that refer only to earlier steps. Any other bytes give
// kInvalidArgument. The steps are views of `from`; `steps` is overwritten.
Status DecodeChain(Bytes from, std::vector<ChainStep>* steps);

// Outcome of a step.
struct ChainOutcome {
  StatusCode code = StatusCode::kOk;  // kCancelled: it was not run.
  ValueKind value_kind = ValueKind::kBytes;
  bool has_version = false;
  bool has_number = false;
  bool omitted = false;  // The value had no room in the answer; its size is in `number`.
  Lsn version;
  std::uint64_t number = 0;
  Bytes value;  // After a failure: its text.
};

// {code:1, kind:1, flags:2, value bytes:4, version:8, number:8}, value.
inline constexpr std::size_t kChainOutcomeBytes = 24;

// Writes outcomes in sequence into memory of its caller. Each step has room for its fixed part.
// From the first value that does not fit, values are left out.
class ChainOutcomeWriter {
 public:
  // REQUIRES: at least kChainOutcomeBytes times `steps` in `to`.
  ChainOutcomeWriter(MutableBytes to, std::size_t steps) : to_(to), left_(steps) {}

  // Returns the largest value of the next outcome that is not left out.
  std::size_t ValueRoom() const { return to_.size() - used_ - kChainOutcomeBytes * left_; }
  // Returns the value where it lies now: valid as long as the memory.
  Bytes Add(ChainOutcome outcome);
  Bytes written() const { return to_.first(used_); }

 private:
  MutableBytes to_;
  std::size_t left_;
  std::size_t used_ = 0;
};

// Returns the outcomes, or kInvalidArgument. Views of `from`.
Result<std::vector<ChainOutcome>> DecodeChainOutcomes(Bytes from);

}  // namespace tidepool::wire
