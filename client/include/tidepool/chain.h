// Several operations in one message that nobody sees half of.
//
//   tidepool::Chain chain;
//   auto taken = chain.Take("{alice}old");
//   chain.Put("{alice}new", taken);                        // What was there, under another key.
//   chain.Put("{alice}note", "was empty").If(taken.NotFound());
//   auto done = map.Execute(chain);                        // Result<ChainResult>
//
// [Chain] -> map.Execute => the core that owns the keys, which runs it without anything between
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

// A condition on what an earlier step of the same chain did.
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

// One step of a chain, while it is put together. A plain value; the chain must outlive it.
class TIDEPOOL_API ChainStep {
 public:
  ChainStep(Chain* chain, std::uint8_t index) : chain_(chain), index_(index) {}
  std::uint8_t index() const { return index_; }

  // Leaves this step out unless the condition holds; the chain goes on.
  ChainStep& If(const ChainCondition& condition);
  // Ends the chain here with kFailedPrecondition unless the condition holds.
  ChainStep& Require(const ChainCondition& condition);
  // The chain goes on if this step fails. (It also does if a later step's condition is about it.)
  ChainStep& MayFail();

  // For later steps. A step that was left out is neither.
  ChainCondition Ok() const { return {index_, ChainCondition::Test::kOk}; }
  ChainCondition NotFound() const { return {index_, ChainCondition::Test::kNotFound}; }
  ChainCondition Equals(std::string_view value) const {
    return {index_, ChainCondition::Test::kEquals, value};
  }

 private:
  Chain* chain_;
  std::uint8_t index_;
};

// A value that is given, or that an earlier step returns.
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

// A number that is given, or that an earlier step returns: the value of a counter, or what a
// Fetch... returned.
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

// The same of floating-point counters. The step that it comes from returns such a number, too: else
// the chain ends there with kInvalidArgument, as where a ChainNumber comes from one of these.
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

// The steps, in the order in which they run. Bounds: 64 steps; keys, values and conditions together
// some 30 KiB; all keys in one partition, as keys with the same {tag} are in every namespace but
// ordered ones, where they must lie in one range (kFailedPrecondition else, and nothing is done).
//
// The chain ends at the first step that fails, with that step's code; what ran before stays done.
// Failures are all codes but kOk. Nobody sees the keys between two steps, and the chain is done
// once or not at all, over broken connections too.
//
// Apply is no step. A chain is one operation of credit, and keeps its core to itself until its end;
// what steps cost is known and bounded, and what a function of a user's costs is not. Where a chain
// is to go on from what a function returned, it comes behind it, and its first step may Require
// that the record still is what the function made of it.
//
// Threads: a chain is put together by one thread; any number may then execute it, again and again.
class TIDEPOOL_API Chain {
 public:
  static constexpr std::size_t kStepsMax = 64;

  // As the operations of BytesMap. Values that are handed on between steps, or returned, have
  // together some 30 KiB; of what exceeds that only the size is returned.
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

// What became of each step. Owns the values.
class TIDEPOOL_API ChainResult {
 public:
  struct Step {
    // kCancelled: it was left out, or the chain had ended.
    Status status;
    Version version = 0;
    // Of Get and Take: the value. Of Get empty, and `omitted`, if it had no room in the answer,
    // which has 32 KiB for all steps; a Take ends as kOutOfRange then and leaves the value where it
    // is.
    Value value;
    bool omitted = false;
    std::uint64_t value_bytes = 0;
    // Of Fetch...: the number before.
    std::int64_t number = 0;
    double number_f64 = 0;  // Of Fetch...F64: the number before.
    // Of Ttl: the time that the record still has, kForEver if it does not expire.
    std::chrono::milliseconds ttl{0};
  };

  // kOk, or why the chain ended: the status of the step that failed, with its number.
  const Status& status() const { return status_; }
  std::size_t size() const { return steps_.size(); }
  // 0 <= i < size(), else the program ends.
  const Step& operator[](std::size_t i) const;
  const Step& operator[](const ChainStep& step) const { return (*this)[step.index()]; }

 private:
  friend struct internal::Access;
  static Result<ChainResult> From(internal::CallRef call);

  Status status_;
  std::vector<Step> steps_;
};

}  // namespace tidepool
