#include "cli/commands/data/bloom.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/commands/data/ensure_namespace.h"
#include "cli/commands/data/record_call.h"
#include "cli/descriptor_io.h"
#include "cli/record_text.h"
#include "proto/base/limits.h"

namespace tidepool::cli {
namespace {

// Values per message, when they come from standard input.
constexpr std::size_t kValuesPerCall = 1000;

// The VALUE arguments, or, for a single "-", the lines of standard input.
Result<std::vector<std::string>> Values(const Arguments& args) {
  std::vector<std::string> values = args.All("VALUE");
  if (values.size() == 1 && values.front() == "-" && !args.Has("--literal")) {
    values.clear();
    auto lines = LineSource::Open("-");
    if (!lines.ok()) return lines.status();
    for (;;) {
      const auto line = lines->Next();
      if (!line.ok()) return line.status();
      if (!line->has_value()) break;
      values.emplace_back(**line);
    }
  }
  for (std::string& value : values) {
    Result<std::string> bytes = BytesArgument(args, "VALUE", value);
    if (!bytes.ok()) return bytes.status();
    value = *std::move(bytes);
    if (value.size() > limits::kKeyBytesMax) {
      return Status(
          StatusCode::kInvalidArgument, "a value of " + std::to_string(value.size()) + " bytes",
          "a filter's values have at most " + std::to_string(limits::kKeyBytesMax) + " bytes");
    }
  }
  return values;
}

// Differences between the two verbs.
struct Question {
  const char* verb;
  v1::OperationKind kind;
  StatusCode no;     // Status of an operation with the answer "no".
  const char* name;  // Name of the answer in JSON.
  const char* yes_text;
  const char* no_text;
  const char* no_plural;  // "2 of 3 values " ...
};

Status Ask(Invocation& run, const Question& question) {
  const Result<std::vector<std::string>> values = Values(run.args);
  if (!values.ok()) return values.status();
  if (values->empty()) {
    TP_RETURN_IF_ERROR(
        CheckNamespace(run, run.args.Text("NAMESPACE"), question.verb, MaskOf(Kind::kBloom)));
  }
  std::string text;
  Json answers = Json::array();
  std::size_t yes = 0;
  for (std::size_t begin = 0; begin < values->size(); begin += kValuesPerCall) {
    const std::size_t end = std::min(begin + kValuesPerCall, values->size());
    std::vector<v1::Operation> operations(end - begin);
    for (std::size_t i = begin; i < end; ++i) {
      operations[i - begin].set_kind(question.kind);
      operations[i - begin].set_key((*values)[i]);
    }
    const auto results = ExecuteAll(run, operations);
    if (!results.ok()) return results.status();
    for (std::size_t i = begin; i < end; ++i) {
      const v1::OperationStatus& outcome = (*results)[i - begin].status();
      const Status status = StatusOf(outcome, operations[i - begin], run.args.Text("NAMESPACE"));
      // With a text it is the namespace that is missing.
      const bool is_no = status.code() == question.no && outcome.message().empty();
      if (!status.ok() && !is_no) return status;
      yes += status.ok() ? 1 : 0;
      text += std::string(status.ok() ? question.yes_text : question.no_text) + "\n";
      Json& answer = answers.emplace_back(Json::object());
      SetBytes(&answer, "value", (*values)[i]);
      answer[question.name] = status.ok();
    }
  }
  Json result;
  result["values"] = std::move(answers);
  result[question.name] = yes;
  run.out.Result(result, text);
  if (yes == values->size()) return OkStatus();
  return Status(question.no, std::to_string(values->size() - yes) + " of " +
                                 std::to_string(values->size()) + " values " + question.no_plural);
}

Status Add(Invocation& run) {
  return Ask(run, {"bloom add", v1::OPERATION_KIND_BLOOM_INSERT, StatusCode::kAlreadyExists, "new",
                   "new", "known", "were there before, or the filter errs"});
}

Status Has(Invocation& run) {
  return Ask(run, {"bloom has", v1::OPERATION_KIND_BLOOM_CONTAINS, StatusCode::kNotFound, "exists",
                   "true", "false", "are not there"});
}

std::vector<Parameter> BloomParameters() {
  return {NamespaceParameter(),
          {"VALUE", "the values; a single - takes the lines of standard input", 1,
           Parameter::kAnyNumber}};
}

std::vector<Option> BloomOptions() {
  return {{"--literal", "", "take VALUE as it is, also -"},
          {"--base64", "", "VALUE is given as base64"}};
}

}  // namespace

std::vector<Verb> BloomVerbs() {
  return {
      {"bloom add",
       "insert values into a filter and tell which are new",
       "Prints new or known for each; the exit code is 0 if all were new, else 1. Of all who "
       "insert a value one is told that it is new. A new value is taken for a known one as often "
       "as the namespace's false-positive rate says.",
       BloomParameters(),
       BloomOptions(),
       {{"kvctl bloom add seen https://example.org/ && echo first", ""},
        {"cut -f1 table | kvctl bloom add seen -", "one value per line"}},
       Add,
       "bloom-add bf.add bf.madd"},
      {"bloom has",
       "say whether values are in a filter",
       "Prints true or false for each; the exit code is 0 if all are there, else 3. false is "
       "always right; true is wrong as often as the namespace's false-positive rate says.",
       BloomParameters(),
       BloomOptions(),
       {{"kvctl bloom has seen https://example.org/", ""}},
       Has,
       "bloom-has bf.exists bf.mexists"},
  };
}

}  // namespace tidepool::cli
