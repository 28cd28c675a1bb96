#include "tests/history/history.h"

#include <array>
#include <optional>
#include <sstream>

namespace tidepool::history {
namespace {

constexpr std::array<std::string_view, kCalls> kCallNames = {
    "get",   "put",  "put-if-absent", "put-if-present", "put-if-version", "delete", "take",
    "add",   "cas",  "scan",          "count",          "erase",          "push",   "pop",
    "lease", "peek", "ack",           "nack",           "length"};
constexpr std::array<std::string_view, kOutcomes> kOutcomeNames = {"ok", "not-found", "exists",
                                                                   "refused", "unknown"};

template <typename Enum, std::size_t kSize>
std::optional<Enum> Find(const std::array<std::string_view, kSize>& names, std::string_view name) {
  for (std::size_t i = 0; i < kSize; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

std::optional<Operation> OperationIn(const std::string& line) {
  std::istringstream words(line);
  Operation operation;
  std::string end;
  std::string call;
  std::string outcome;
  std::size_t records = 0;
  words >> operation.object >> operation.client >> operation.begin_ns >> end >> call >>
      operation.key >> operation.a >> operation.b >> outcome >> operation.value >>
      operation.version >> operation.deliveries >> records;
  const auto found_call = Find<Call>(kCallNames, call);
  const auto found_outcome = Find<Outcome>(kOutcomeNames, outcome);
  if (!words || !found_call.has_value() || !found_outcome.has_value()) return std::nullopt;
  operation.call = *found_call;
  operation.outcome = *found_outcome;
  operation.end_ns = end == "-" ? kNever : std::strtoull(end.c_str(), nullptr, 10);
  for (; records > 0; --records) {
    auto& [key, value] = operation.records.emplace_back();
    words >> key >> value;
    if (!words) return std::nullopt;
  }
  if ((operation.end_ns == kNever) != (operation.outcome == Outcome::kUnknown)) return std::nullopt;
  return operation;
}

}  // namespace

std::string_view NameOf(Call call) { return kCallNames[static_cast<std::size_t>(call)]; }
std::string_view NameOf(Outcome outcome) {
  return kOutcomeNames[static_cast<std::size_t>(outcome)];
}

std::map<std::string, History> ByObject(const History& history) {
  std::map<std::string, History> parts;
  for (const Operation& operation : history) parts[operation.object].push_back(operation);
  return parts;
}

std::string ToText(const Operation& operation) {
  std::ostringstream line;
  line << operation.object << ' ' << operation.client << ' ' << operation.begin_ns << ' ';
  if (operation.end_ns == kNever) {
    line << '-';
  } else {
    line << operation.end_ns;
  }
  line << ' ' << NameOf(operation.call) << ' ' << operation.key << ' ' << operation.a << ' '
       << operation.b << ' ' << NameOf(operation.outcome) << ' ' << operation.value << ' '
       << operation.version << ' ' << operation.deliveries << ' ' << operation.records.size();
  for (const auto& [key, value] : operation.records) line << ' ' << key << ' ' << value;
  return line.str();
}

std::string ToText(const History& history) {
  std::string text;
  for (const Operation& operation : history) text += ToText(operation) + "\n";
  return text;
}

Result<History> FromText(std::string_view text) {
  std::istringstream lines{std::string(text)};
  History history;
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    auto operation = OperationIn(line);
    if (!operation.has_value()) {
      return Status(StatusCode::kInvalidArgument,
                    "line " + std::to_string(number) + " is no operation: " + line);
    }
    history.push_back(*std::move(operation));
  }
  return history;
}

}  // namespace tidepool::history
