// A history: operations that clients have called, with their intervals, arguments and results.
//
//   recorder, files -> [history] -> checker
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/base/result.h"

namespace tidepool::history {

enum class Call : std::uint8_t {
  kGet,
  kPut,           // a: the value.
  kPutIfAbsent,   // a: the value.
  kPutIfPresent,  // a: the value.
  kPutIfVersion,  // a: the value, b: the version.
  kDelete,
  kTake,
  kFetchAdd,        // a: the summand.
  kCompareAndSwap,  // a: the expected value, b: the desired value.
  kScan,            // Keys from `key` up to but without a.
  kCountRange,      // The same range.
  kEraseRange,      // The same range.
  kPush,            // a: the value, b: the priority.
  kPop,
  kPopLease,  // a: the lease in ns.
  kPeek,
  kAck,   // a: the item's id, b: the number of the delivery.
  kNack,  // Like kAck.
  kLength,
};
inline constexpr std::size_t kCalls = static_cast<std::size_t>(Call::kLength) + 1;

enum class Outcome : std::uint8_t {
  kOk,
  kNotFound,
  kExists,
  kRefused,  // Another version, another value, or a lease that has ended.
  kUnknown,  // The operation takes effect at any time after its call, or never.
};
inline constexpr std::size_t kOutcomes = static_cast<std::size_t>(Outcome::kUnknown) + 1;

// The end of an operation whose outcome is unknown.
inline constexpr std::uint64_t kNever = ~std::uint64_t{0};

struct Operation {
  std::uint32_t client = 0;
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = kNever;
  std::string object;     // Histories of different objects are checked apart.
  std::uint32_t key = 0;  // Within the object.
  Call call = Call::kGet;
  std::int64_t a = 0;
  std::int64_t b = 0;

  Outcome outcome = Outcome::kUnknown;
  std::int64_t value = 0;     // Read, popped, counted, or present before a FetchAdd.
  std::uint64_t version = 0;  // Version of a record, or an item's id. 0: not returned.
  std::uint32_t deliveries = 0;
  std::vector<std::pair<std::uint32_t, std::int64_t>> records;  // Records of a scan.

  friend bool operator==(const Operation&, const Operation&) = default;
};

using History = std::vector<Operation>;

std::string_view NameOf(Call call);
std::string_view NameOf(Outcome outcome);

// Splits a history by objects. Each part keeps the order of the operations.
std::map<std::string, History> ByObject(const History& history);

// Encodes one line per operation. Lines that begin with '#' are comments.
std::string ToText(const Operation& operation);
std::string ToText(const History& history);
// Returns kInvalidArgument for a text that is no history; the message names the line.
Result<History> FromText(std::string_view text);

}  // namespace tidepool::history
