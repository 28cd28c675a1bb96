#include "cli/commands/data/update.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/commands/data/receipt.h"
#include "cli/commands/data/record_call.h"
#include "cli/commands/files/staged_file.h"
#include "cli/record_text.h"
#include "cli/text.h"

namespace tidepool::cli {
namespace {

// In place of the version: a prefilter has only marked the key.
constexpr std::uint64_t kNothingStored = 0;

// An operation of `kind`, a change, on KEY.
Result<v1::Operation> OnKey(Invocation& run, v1::OperationKind kind) {
  Result<std::string> key = KeyArgument(run.args);
  if (!key.ok()) return key.status();
  TP_RETURN_IF_ERROR(CheckNotStagedFile(run, *key));
  v1::Operation operation;
  operation.set_kind(kind);
  operation.set_key(*std::move(key));
  return operation;
}

void Print(Invocation& run, std::string_view key, const char* name, Json what,
           std::string_view text) {
  Json result;
  SetBytes(&result, "key", key);
  result[name] = std::move(what);
  run.out.Result(result, text);
}

Status Incr(Invocation& run) {
  Result<v1::Operation> add = OnKey(run, v1::OPERATION_KIND_FETCH_ADD);
  if (!add.ok()) return add.status();
  if (run.args.Has("--if-present")) add->set_condition(v1::PUT_CONDITION_IF_PRESENT);
  const std::string& by = run.args.Text("BY");
  const std::string text = by.empty() ? "1" : by;
  // The daemon answers the previous counter; the same addition gives the new counter.
  if (run.args.Has("--f64")) {
    const Result<double> number = ParseCounterF64(text);
    if (!number.ok()) return number.status();
    if (!std::isfinite(*number)) {
      return Status(StatusCode::kInvalidArgument,
                    Quote(text) + " is no number to add: the counter would never be a number again",
                    "to store it: kvctl put --f64");
    }
    add->set_value_kind(v1::VALUE_KIND_F64);
    add->set_operand_f64(*number);
    const Result<v1::OperationResult> before = ExecuteOne(run, *add);
    if (!before.ok()) return before.status();
    const double now = before->version() == kNothingStored ? 0 : before->number_f64() + *number;
    Json object;
    SetValue(&object, CounterBytes(now), v1::VALUE_KIND_F64);
    Print(run, add->key(), "value", object["value"], FormatDouble(now));
    return OkStatus();
  }
  const Result<std::int64_t> number = ParseSigned(text);
  if (!number.ok()) {
    return Status(number.code(), std::string(number.status().what()),
                  "for other numbers: kvctl incr --f64");
  }
  add->set_value_kind(v1::VALUE_KIND_I64);
  add->set_operand(*number);
  const Result<v1::OperationResult> before = ExecuteOne(run, *add);
  if (!before.ok()) return before.status();
  // The daemon refuses an overflow.
  const std::int64_t now = before->version() == kNothingStored ? 0 : before->number() + *number;
  Print(run, add->key(), "value", now, std::to_string(now));
  return OkStatus();
}

Status Append(Invocation& run) {
  Result<v1::Operation> append = OnKey(run, v1::OPERATION_KIND_APPEND);
  if (!append.ok()) return append.status();
  Result<std::string> value = ValueArgument(run.args, "VALUE", v1::VALUE_KIND_BYTES);
  if (!value.ok()) return value.status();
  append->set_value(*std::move(value));
  const Result<v1::OperationResult> result = ExecuteOne(run, *append);
  if (!result.ok()) return result.status();
  Print(run, append->key(), "value_bytes", result->value_bytes(), "");
  return OkStatus();
}

Status Apply(Invocation& run) {
  Result<v1::Operation> apply = OnKey(run, v1::OPERATION_KIND_APPLY);
  if (!apply.ok()) return apply.status();
  apply->set_function(run.args.Text("FUNCTION"));
  if (!run.args.Text("ARGUMENT").empty()) {
    const Result<v1::ValueKind> kind = KindArgument(run.args);
    if (!kind.ok()) return kind.status();
    Result<std::string> argument = ValueArgument(run.args, "ARGUMENT", *kind);
    if (!argument.ok()) return argument.status();
    apply->set_value(*std::move(argument));
  }
  const Result<v1::OperationResult> result = ExecuteOne(run, *apply);
  if (!result.ok()) return result.status();
  if (run.out.json()) {
    Json object;
    SetBytes(&object, "key", apply->key());
    SetBytes(&object, "result", result->value());
    object["version"] = result->version() == 0 ? Json(nullptr) : Json(result->version());
    run.out.Result(object, "");
    return OkStatus();
  }
  // Prints like get: the bytes must stay unchanged.
  run.out.Raw(result->value());
  if (run.out.stdout_is_terminal() && !result->value().empty()) run.out.Raw("\n");
  return OkStatus();
}

Status Cas(Invocation& run) {
  Result<v1::Operation> swap = OnKey(run, v1::OPERATION_KIND_COMPARE_AND_SWAP);
  if (!swap.ok()) return swap.status();
  if (run.args.Text("EXPECTED") == "-" && run.args.Text("VALUE") == "-" &&
      !run.args.Has("--literal")) {
    return Status(StatusCode::kInvalidArgument,
                  "EXPECTED and VALUE cannot both come from standard input", "give one as @FILE");
  }
  const Result<v1::ValueKind> kind = KindArgument(run.args);
  if (!kind.ok()) return kind.status();
  Result<std::string> expected = ValueArgument(run.args, "EXPECTED", *kind);
  if (!expected.ok()) return expected.status();
  Result<std::string> value = ValueArgument(run.args, "VALUE", *kind);
  if (!value.ok()) return value.status();
  swap->set_expected(*std::move(expected));
  swap->set_value(*std::move(value));
  swap->set_value_kind(*kind);
  const Result<v1::OperationResult> result = ExecuteOne(run, *swap);
  if (!result.ok()) return result.status();
  Print(run, swap->key(), "version", result->version(), "");
  return OkStatus();
}

Status Expire(Invocation& run) {
  Result<v1::Operation> expire = OnKey(run, v1::OPERATION_KIND_EXPIRE);
  if (!expire.ok()) return expire.status();
  const std::string& duration = run.args.Text("DURATION");
  const Result<std::uint64_t> ttl_ms =
      duration == "never" ? Result<std::uint64_t>(0) : ParseDurationMs(duration);
  if (!ttl_ms.ok()) return ttl_ms.status();
  if (*ttl_ms == 0 && duration != "never") {
    return Status(StatusCode::kInvalidArgument, "a duration of 0",
                  "write never, or delete the record: kvctl delete");
  }
  expire->set_ttl_ms(*ttl_ms);
  const Result<v1::OperationResult> result = ExecuteOne(run, *expire);
  if (!result.ok()) return result.status();
  Print(run, expire->key(), "ttl_ms", *ttl_ms == 0 ? Json(nullptr) : Json(*ttl_ms), "");
  return OkStatus();
}

}  // namespace

std::vector<Verb> UpdateVerbs() {
  return {
      {"incr",
       "add to a counter and print the new number",
       "An absent key counts as 0. A value that was not put as a counter is refused. In a "
       "namespace with prefilter admit the first one of a key stores nothing: it prints 0.",
       {NamespaceParameter(), KeyParameter(), {"BY", "what to add (default 1)", 0, 1}},
       {{"--f64", "", "a floating-point counter"},
        {"--if-present", "", "only if the key exists (else exit code 3)"},
        ReceiptOption(),
        Base64Option()},
       {{"kvctl incr default visits", "prints 1, then 2, ..."},
        {"kvctl incr default visits -5", ""},
        {"kvctl incr default energy 0.25 --f64", ""}},
       Incr,
       "incrby add increment decr"},
      {"append",
       "append bytes to a value",
       "At most 32 KiB at a time, as in the SDK. An absent key is created.",
       {NamespaceParameter(), KeyParameter(), ValueParameter()},
       {LiteralOption(), ReceiptOption(), Base64Option()},
       {{"kvctl append default log 'one more line'", ""}},
       Append},
      {"apply",
       "let a function of the daemons decide what becomes of a value",
       "Prints what the function returns. kvd has: exchange, greater, lesser, or-bytes, add-i64s, "
       "add-f64s and append-last; kvd --functions loads a site's own.",
       {NamespaceParameter(),
        KeyParameter(),
        {"FUNCTION", "its name"},
        {"ARGUMENT", "what it gets; as VALUE (default: nothing)", 0, 1}},
       {{"--int", "", "the argument is a whole number: its 8 bytes"},
        {"--f64", "", "the argument is a floating-point number: its 8 bytes"},
        LiteralOption(),
        ReceiptOption(),
        Base64Option()},
       {{"kvctl apply default greeting exchange welcome", "prints what it was"},
        {"kvctl apply default sums add-i64s 5 --int", ""}},
       Apply,
       "call function update script eval"},
      {"cas",
       "replace a value if it is the expected one",
       "Compare and swap: exit code 1 if the record has another value, 3 if it does not exist. "
       "EXPECTED and VALUE together have at most 32 KiB.",
       {NamespaceParameter(),
        KeyParameter(),
        {"EXPECTED", "the value that must be there; as VALUE"},
        ValueParameter()},
       {{"--int", "", "both are whole numbers of a counter"},
        {"--f64", "", "both are numbers of a floating-point counter"},
        LiteralOption(),
        ReceiptOption(),
        Base64Option()},
       {{"kvctl cas default leader none alice", ""}, {"kvctl cas default visits 1 0 --int", ""}},
       Cas,
       "compare-and-swap swap"},
      {"expire",
       "let a record expire, or not",
       "",
       {NamespaceParameter(), KeyParameter(), {"DURATION", "from now on, or never"}},
       {ReceiptOption(), Base64Option()},
       {{"kvctl expire default greeting 10m", ""}, {"kvctl expire default greeting never", ""}},
       Expire,
       "persist touch"},
  };
}

}  // namespace tidepool::cli
