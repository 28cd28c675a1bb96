// Several operations in one message, executed without interleaving.
//
//   tidepool::Chain chain;
//   auto taken = chain.Take("{alice}old");
//   chain.Put("{alice}new", taken);                        // The old value under another key.
//   chain.Put("{alice}note", "was empty").If(taken.NotFound());
//   auto done = map.Execute(chain);                        // Result<ChainResult>
//
// [Chain] -> map.Execute => the core that owns the keys
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tidepool/bytes_map.h"
#include "tidepool/export.h"
#include "tidepool/status.h"
#include "tidepool/value.h"

namespace tidepool {

class Chain;

namespace internal {
class ChainCodec;
}  // namespace internal

// A condition on the outcome of an earlier step of the same chain.
class ChainCondition {
 public:
  enum class Test : std::uint8_t { kOk = 1, kNotFound = 2, kEquals = 3 };
  ChainCondition(std::uint8_t step, Test test, std::string_view expected = {})
      : step_(step), test_(test), expected_(expected) {}

  std::uint8_t step() const { return step_; }
  Test test() const { return test_; }
  const std::string& expected() const { return expected_; }

 private:
  std::uint8_t step_;
  Test test_;
  std::string expected_;
};

// One step of a chain under construction. A plain value; the chain must outlive it.
class TIDEPOOL_API ChainStep {
 public:
  ChainStep(Chain* chain, std::uint8_t index) : chain_(chain), index_(index) {}
  std::uint8_t index() const { return index_; }

  // Skips this step unless the condition holds; the chain continues.
  ChainStep& If(const ChainCondition& condition);
  // Ends the chain here with kFailedPrecondition unless the condition holds.
  ChainStep& Require(const ChainCondition& condition);
  // Lets the chain continue if this step fails. (It also continues if a later step's condition
  // tests this step.)
  ChainStep& MayFail();

  // Conditions for later steps. A skipped step satisfies neither Ok() nor NotFound().
  ChainCondition Ok() const { return {index_, ChainCondition::Test::kOk}; }
  ChainCondition NotFound() const { return {index_, ChainCondition::Test::kNotFound}; }
  ChainCondition Equals(std::string_view value) const {
    return {index_, ChainCondition::Test::kEquals, value};
  }

 private:
  Chain* chain_;
  std::uint8_t index_;
};

// A given value, or the value that an earlier step returns.
class ChainValue {
 public:
  ChainValue(std::string_view bytes) : bytes_(bytes) {}       // NOLINT: meant to convert.
  ChainValue(const char* text) : bytes_(text) {}              // NOLINT
  ChainValue(const std::string& bytes) : bytes_(bytes) {}     // NOLINT
  ChainValue(const ChainStep& step) : step_(step.index()) {}  // NOLINT

  static constexpr std::uint8_t kGiven = 0xff;
  std::uint8_t step() const { return step_; }
  std::string_view bytes() const { return bytes_; }

 private:
  std::string_view bytes_;
  std::uint8_t step_ = kGiven;
};

// A given number, or the number that an earlier step returns: the value of a counter, or the result
// of a Fetch...
class ChainNumber {
 public:
  ChainNumber(std::int64_t number) : number_(number) {}        // NOLINT: meant to convert.
  ChainNumber(const ChainStep& step) : step_(step.index()) {}  // NOLINT

  std::uint8_t step() const { return step_; }
  std::int64_t number() const { return number_; }

 private:
  std::int64_t number_ = 0;
  std::uint8_t step_ = ChainValue::kGiven;
};

// A given floating-point number, or the number of an earlier step. The chain ends with
// kInvalidArgument if that step returns an integer; likewise for a ChainNumber from a
// floating-point step.
class ChainNumberF64 {
 public:
  ChainNumberF64(double number) : number_(number) {}              // NOLINT: meant to convert.
  ChainNumberF64(const ChainStep& step) : step_(step.index()) {}  // NOLINT

  std::uint8_t step() const { return step_; }
  double number() const { return number_; }

 private:
  double number_ = 0;
  std::uint8_t step_ = ChainValue::kGiven;
};

// Steps in the order of execution. Bounds: 64 steps; some 30 KiB of keys, values and conditions
// together. All keys must lie in one partition, as keys with the same {tag} do. Keys of an ordered
// namespace must lie in one range; otherwise Execute fails with kFailedPrecondition and no effect.
//
// The chain ends at the first step that fails (any code but kOk), with that step's code. Earlier
// steps stay applied. Other clients never see the keys between two steps. The chain is executed
// once or not at all, also across broken connections.
//
// Apply is not a step. A chain counts as one operation of credit and occupies its core until its
// end, so the cost of its steps must be bounded; the cost of a site's function is not. To continue
// from a function's result, execute a chain after it. Its first step can Require that the record
// still has that result.
//
// Threads: one thread builds a chain; any number of threads may then execute it, repeatedly.
class TIDEPOOL_API Chain {
 public:
  static constexpr std::size_t kStepsMax = 64;

  // Append operations of BytesMap. Values passed between steps or returned have together some 30
  // KiB; for a value beyond that, only its size is returned.
  ChainStep Get(std::string_view key);
  ChainStep Take(std::string_view key);
  ChainStep Contains(std::string_view key);
  ChainStep Put(std::string_view key, const ChainValue& value, const PutOptions& options = {});
  ChainStep Delete(std::string_view key, const DeleteOptions& options = {});
  ChainStep Append(std::string_view key, const ChainValue& suffix);
  ChainStep CompareAndSwap(std::string_view key, std::string_view expected,
                           std::string_view desired);
  ChainStep FetchAdd(std::string_view key, const ChainNumber& by);
  ChainStep FetchAnd(std::string_view key, const ChainNumber& mask);
  ChainStep FetchOr(std::string_view key, const ChainNumber& bits);
  ChainStep FetchXor(std::string_view key, const ChainNumber& bits);
  ChainStep FetchMin(std::string_view key, const ChainNumber& with);
  ChainStep FetchMax(std::string_view key, const ChainNumber& with);
  ChainStep FetchAddF64(std::string_view key, const ChainNumberF64& by);
  ChainStep FetchMinF64(std::string_view key, const ChainNumberF64& with);
  ChainStep FetchMaxF64(std::string_view key, const ChainNumberF64& with);
  ChainStep Expire(std::string_view key, std::chrono::milliseconds ttl);
  ChainStep Ttl(std::string_view key);

  std::size_t size() const { return steps_.size(); }

 private:
  friend class ChainStep;
  friend class internal::ChainCodec;

  struct Step {
    std::uint8_t opcode = 0;
    std::uint8_t condition = 0;
    std::uint8_t value_kind = 0;
    std::uint8_t fed_by = ChainValue::kGiven;
    std::uint8_t tested = ChainValue::kGiven;
    std::uint8_t test = 0;
    bool required = false;
    bool may_fail = false;
    std::vector<std::pair<std::uint8_t, std::uint64_t>> words;  // Arguments.
    std::string key;
    std::string value;
    std::string expected;
  };
  ChainStep Add(std::uint8_t opcode, std::string_view key, Step step);
  ChainStep AddFetch(std::uint8_t opcode, std::string_view key, const ChainNumber& number);
  ChainStep AddFetchF64(std::uint8_t opcode, std::string_view key, const ChainNumberF64& number);
  void Test(std::uint8_t index, const ChainCondition& condition, bool required);

  std::vector<Step> steps_;
};

// The outcome of each step. Owns the values.
class TIDEPOOL_API ChainResult {
 public:
  struct Step {
    // kCancelled: the step was skipped, or the chain had ended.
    Status status;
    Version version = 0;
    // Value of Get and Take. The answer has 32 KiB for all steps. A Get whose value does not fit
    // returns it empty and sets `omitted`. A Take whose value does not fit fails with kOutOfRange
    // and deletes nothing.
    Value value;
    bool omitted = false;
    std::uint64_t value_bytes = 0;
    // Previous number of Fetch...
    std::int64_t number = 0;
    double number_f64 = 0;  // Previous number of Fetch...F64.
    // Remaining time to live, for Ttl; kForEver if the record does not expire.
    std::chrono::milliseconds ttl{0};
  };

  // Returns kOk, or the status of the step that ended the chain, with its index.
  const Status& status() const { return status_; }
  std::size_t size() const { return steps_.size(); }
  // REQUIRES: 0 <= i < size(), otherwise the program ends.
  const Step& operator[](std::size_t i) const;
  const Step& operator[](const ChainStep& step) const { return (*this)[step.index()]; }

 private:
  friend struct internal::Access;
  static Result<ChainResult> From(internal::CallRef call);

  Status status_;
  std::vector<Step> steps_;
};

}  // namespace tidepool
