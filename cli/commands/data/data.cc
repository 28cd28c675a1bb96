#include "cli/commands/data/data.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "cli/commands/data/delete.h"
#include "cli/commands/data/get_many.h"
#include "cli/commands/data/large_value.h"
#include "cli/commands/data/receipt.h"
#include "cli/commands/data/record_call.h"
#include "cli/commands/files/staged_file.h"
#include "cli/record_text.h"
#include "cli/text.h"
#include "cli/value_source.h"
#include "proto/base/limits.h"

namespace tidepool::cli {
namespace {

Json KeyObject(std::string_view key) {
  Json object;
  SetBytes(&object, "key", key);
  return object;
}

// put

Status SetCondition(const Arguments& args, v1::Operation* put) {
  const bool absent = args.Has("--if-absent");
  const bool present = args.Has("--if-present");
  const bool version = args.Has("--if-version");
  if (absent + present + version > 1) {
    return Status(StatusCode::kInvalidArgument,
                  "give only one of --if-absent, --if-present and --if-version");
  }
  if (absent) put->set_condition(v1::PUT_CONDITION_IF_ABSENT);
  if (present) put->set_condition(v1::PUT_CONDITION_IF_PRESENT);
  if (version) {
    const Result<std::uint64_t> wanted = args.Number("--if-version", 0);
    if (!wanted.ok()) return wanted.status();
    put->set_condition(v1::PUT_CONDITION_IF_VERSION);
    put->set_version(*wanted);
  }
  return OkStatus();
}

Result<std::uint64_t> PutLarge(Invocation& run, const v1::Operation& put, ValueSource value) {
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  v1::WriteValueRequest::Start start;
  start.set_namespace_(run.args.Text("NAMESPACE"));
  start.set_key(put.key());
  start.set_total_bytes(value.bytes());
  if (put.has_ttl_ms()) start.set_ttl_ms(put.ttl_ms());
  start.set_condition(put.condition());
  start.set_version(put.version());
  const auto written =
      WriteLargeValue(**channel, start, [&] { return value.Next(kLargeValuePartBytes); });
  if (!written.ok()) return written.status();
  TellReceipt(run, written->receipt());
  return written->version();
}

Result<std::uint64_t> PutValue(Invocation& run, v1::Operation put, v1::ValueKind kind) {
  if (kind == v1::VALUE_KIND_BYTES) {
    Result<ValueSource> value =
        ValueSource::Open(run.args.Text("VALUE"), run.args.Has("--literal"));
    if (!value.ok()) return value.status();
    if (value->bytes() > kMessageValueBytesMax) return PutLarge(run, put, *std::move(value));
    Result<std::string> bytes = value->Rest();
    if (!bytes.ok()) return bytes.status();
    put.set_value(*std::move(bytes));
  } else {
    Result<std::string> bytes = ValueArgument(run.args, "VALUE", kind);
    if (!bytes.ok()) return bytes.status();
    put.set_value(*std::move(bytes));
    put.set_value_kind(kind);
  }
  const Result<v1::OperationResult> result = ExecuteOne(run, std::move(put));
  if (!result.ok()) return result.status();
  return result->version();
}

Status Put(Invocation& run) {
  v1::Operation put;
  put.set_kind(v1::OPERATION_KIND_PUT);
  Result<std::string> key = KeyArgument(run.args);
  if (!key.ok()) return key.status();
  put.set_key(*key);
  TP_RETURN_IF_ERROR(SetCondition(run.args, &put));
  TP_RETURN_IF_ERROR(CheckNotStagedFile(run, *key));
  const Result<std::uint64_t> ttl_ms = run.args.DurationMs("--ttl", 0);
  if (!ttl_ms.ok()) return ttl_ms.status();
  if (run.args.Has("--ttl")) put.set_ttl_ms(*ttl_ms);
  const Result<v1::ValueKind> kind = KindArgument(run.args);
  if (!kind.ok()) return kind.status();
  const Result<std::uint64_t> version = PutValue(run, std::move(put), *kind);
  if (!version.ok()) return version.status();
  Json result = KeyObject(*key);
  result["version"] = *version;
  run.out.Result(result, "");
  return OkStatus();
}

// get

void PrintValue(Invocation& run, std::string_view key, const v1::OperationResult& value) {
  if (run.out.json()) {
    Json result = KeyObject(key);
    SetValue(&result, value.value(), value.value_kind());
    result["kind"] = ValueKindName(value.value_kind());
    result["version"] = value.version();
    run.out.Result(result, "");
    return;
  }
  run.out.Raw(ValueText(value.value(), value.value_kind()));
  // A counter is printed as a line of text. The bytes of a value must stay unchanged.
  const bool counter = value.value_kind() != v1::VALUE_KIND_BYTES;
  if (counter || run.out.stdout_is_terminal()) run.out.Raw("\n");
}

Status GetLarge(Invocation& run, const std::string& key) {
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  v1::ReadValueRequest request;
  request.set_namespace_(run.args.Text("NAMESPACE"));
  request.set_key(key);
  v1::OperationResult value;  // Collected for JSON, printed as it comes otherwise.
  const bool json = run.out.json();
  const Status status = ReadLargeValue(**channel, request, [&](const v1::ReadValueResponse& part) {
    if (part.version() != 0) value.set_version(part.version());
    if (json) {
      value.mutable_value()->append(part.data());
    } else {
      run.out.Raw(part.data());
    }
  });
  if (!status.ok() || !json) return status;
  PrintValue(run, key, value);
  return OkStatus();
}

// Prints a file in parts. Its path is not the key of a record.
Status GetStagedFile(Invocation& run, const v1::StageEntry& file) {
  v1::OperationResult value;
  const bool json = run.out.json();
  if (json && file.size() > limits::kValueBytesMax) {
    return Status(StatusCode::kInvalidArgument,
                  "the file " + Quote(file.path()) + " is too large for JSON", "leave out --json");
  }
  const Status status = ReadStagedFile(run, file, [&](std::string_view piece) {
    if (json) {
      value.mutable_value()->append(piece);
    } else {
      run.out.Raw(piece);
    }
  });
  if (status.ok() && json) PrintValue(run, file.path(), value);
  return status;
}

Status Get(Invocation& run) {
  const Result<std::vector<std::string>> keys = KeyArguments(run.args);
  if (!keys.ok()) return keys.status();
  if (keys->size() > 1) return GetMany(run, *keys);
  const std::string* const key = &keys->front();
  v1::Operation get;
  get.set_kind(v1::OPERATION_KIND_GET);
  get.set_key(*key);
  const Result<v1::OperationResult> result = ExecuteOne(run, get);
  if (result.code() == StatusCode::kNotFound) {
    const Result<v1::StageEntry> file = FindStagedFile(run, *key);
    if (file.ok()) return GetStagedFile(run, *file);
    if (file.code() != StatusCode::kNotFound) return file.status();
  }
  if (!result.ok()) return result.status();
  if (result->value_omitted()) return GetLarge(run, *key);
  PrintValue(run, *key, *result);
  return OkStatus();
}

// exists, ttl

Status Exists(Invocation& run) {
  v1::Operation contains;
  contains.set_kind(v1::OPERATION_KIND_CONTAINS);
  Result<std::string> key = KeyArgument(run.args);
  if (!key.ok()) return key.status();
  contains.set_key(*key);
  const auto results = ExecuteAll(run, {contains});
  if (!results.ok()) return results.status();
  const Status status = StatusOf(results->front().status(), contains, run.args.Text("NAMESPACE"));
  const bool absent =
      status.code() == StatusCode::kNotFound && results->front().status().message().empty();
  if (!status.ok() && !absent) return status;
  // A staged file in parts exists too.
  const bool exists = !absent || FindStagedFile(run, *key).ok();
  Json result = KeyObject(*key);
  result["exists"] = exists;
  run.out.Result(result, exists ? "true" : "false");
  return exists ? OkStatus() : status;
}

Status Ttl(Invocation& run) {
  v1::Operation ttl;
  ttl.set_kind(v1::OPERATION_KIND_TTL);
  Result<std::string> key = KeyArgument(run.args);
  if (!key.ok()) return key.status();
  ttl.set_key(*key);
  const Result<v1::OperationResult> answer = ExecuteOne(run, ttl);
  const bool is_file = answer.code() == StatusCode::kNotFound && FindStagedFile(run, *key).ok();
  if (!answer.ok() && !is_file) return answer.status();
  const bool for_ever = is_file || answer->number() < 0;
  Json result = KeyObject(*key);
  result["ttl_ms"] = for_ever ? Json(nullptr) : Json(answer->number());
  run.out.Result(
      result, for_ever ? "never" : FormatDurationMs(static_cast<std::uint64_t>(answer->number())));
  return OkStatus();
}

}  // namespace

std::vector<Verb> DataVerbs() {
  return {
      {"put",
       "store a value under a key",
       "Values have at most 1 GiB; those above 1 MiB are streamed. --int and --f64 make a counter, "
       "which prints as a number. A value that begins with a dash needs -- before it. A staged "
       "file "
       "above 64 MiB is no record to be changed: delete it first.",
       {NamespaceParameter(), KeyParameter(), ValueParameter()},
       {{"--ttl", "DURATION", "let the record expire after this long; 0: never"},
        {"--int", "", "VALUE is a whole number: store a counter"},
        {"--f64", "", "VALUE is a number: store a floating-point counter"},
        {"--if-absent", "", "only if the key does not exist (else exit code 1)"},
        {"--if-present", "", "only if the key exists (else exit code 3)"},
        {"--if-version", "N", "only if the record has this version (else exit code 1)"},
        ReceiptOption(),
        LiteralOption(),
        Base64Option()},
       {{"kvctl put default greeting hello", ""},
        {"kvctl put state step 17 --receipt", "says whether it is on a device yet"},
        {"kvctl put default image @photo.jpg", "a file's content"},
        {"date | kvctl put default now - --ttl 10m", "standard input, gone after ten minutes"},
        {"kvctl put default visits 0 --int --if-absent", "a counter, unless it is there"}},
       Put,
       "set write store"},
      {"get",
       "print a value, or the records of several keys",
       "The bytes go to standard output as they are; a newline follows only on a terminal. "
       "Counters are printed as a line with their number. With several keys each record is a line "
       "of JSON as dump prints it, {\"key\", \"value\"}, with key_base64 and value_base64 for what "
       "is not UTF-8. Keys that do not exist are named on standard error; the others are printed, "
       "and the exit code is 3.",
       {NamespaceParameter(), {"KEY", "the keys", 1, Parameter::kAnyNumber}},
       {Base64Option()},
       {{"kvctl get default greeting", "prints hello"},
        {"kvctl get default a b c", "three lines of JSON"},
        {"kvctl get default image >photo.jpg", ""},
        {"kvctl get default greeting --json", "value, kind and version"}},
       Get,
       "read cat fetch show"},
      {"delete",
       "delete records",
       "A staged file above 64 MiB is deleted by its path like any other. With --glob it prints "
       "how "
       "many records there were; those that are put meanwhile may stay. kvctl keys lists them "
       "before.",
       {NamespaceParameter(), {"KEY", "the keys", 0, Parameter::kAnyNumber}},
       {{"--glob", "PATTERN", "instead of KEY: all keys that match, as those of kvctl keys"},
        ReceiptOption(),
        Base64Option()},
       {{"kvctl delete default greeting", ""},
        {"kvctl delete default a b c", ""},
        {"kvctl delete inputs --glob 'run1/*'", "prints how many"}},
       DeleteRecords,
       "rm del remove"},
      {"exists",
       "say whether a key exists",
       "Prints true or false; the exit code is 0 or 3.",
       {NamespaceParameter(), KeyParameter()},
       {Base64Option()},
       {{"kvctl exists default greeting && echo yes", ""}},
       Exists,
       "contains has"},
      {"ttl",
       "print how long a record still lives",
       "",
       {NamespaceParameter(), KeyParameter()},
       {Base64Option()},
       {{"kvctl ttl default now", "9m12s, or never"}},
       Ttl,
       "pttl"},
  };
}

}  // namespace tidepool::cli
