#include "cli/commands/data/record_call.h"

#include <algorithm>
#include <utility>

#include "cli/commands/data/receipt.h"
#include "cli/record_text.h"
#include "cli/text.h"
#include "cli/value_source.h"
#include "proto/base/limits.h"
#include "tidepool/v1/data.grpc.pb.h"

namespace tidepool::cli {
namespace {

Status InvalidArgument(std::string what, std::string remedy = {}) {
  return Status(StatusCode::kInvalidArgument, std::move(what), std::move(remedy));
}

bool IsChange(v1::OperationKind kind) {
  return kind != v1::OPERATION_KIND_GET && kind != v1::OPERATION_KIND_CONTAINS &&
         kind != v1::OPERATION_KIND_TTL;
}

Status NoNumber(std::string_view name, const Status& failure) {
  return InvalidArgument(std::string(name) + ": " + std::string(failure.what()),
                         "give a number, or bytes without --int and --f64");
}

StatusCode CodeOf(std::uint32_t number) {
  return number < kStatusCodeCount ? static_cast<StatusCode>(number) : StatusCode::kUnknown;
}

std::string PreconditionText(const v1::Operation& operation) {
  if (operation.kind() == v1::OPERATION_KIND_COMPARE_AND_SWAP) return " has another value";
  return " has another version";
}

}  // namespace

Parameter NamespaceParameter() { return {"NAMESPACE", "the namespace"}; }
Parameter KeyParameter() { return {"KEY", "the record's key"}; }
Parameter ValueParameter() {
  return {"VALUE", "the value itself, - for standard input, @FILE for a file's content"};
}
Option Base64Option() { return {"--base64", "", "KEY is given as base64"}; }
Option LiteralOption() { return {"--literal", "", "take VALUE as it is, also - and @..."}; }

Result<std::string> BytesArgument(const Arguments& args, std::string_view name,
                                  const std::string& text) {
  if (!args.Has("--base64")) return text;
  Result<std::string> bytes = DecodeBase64(text);
  if (bytes.ok()) return bytes;
  return InvalidArgument(std::string(name) + ": " + std::string(bytes.status().what()));
}

Result<std::vector<std::string>> KeyArguments(const Arguments& args) {
  std::vector<std::string> keys = args.All("KEY");
  for (std::string& key : keys) {
    Result<std::string> bytes = BytesArgument(args, "KEY", key);
    if (!bytes.ok()) return bytes.status();
    key = *std::move(bytes);
    if (key.size() > limits::kKeyBytesMax) {
      return InvalidArgument(
          "a key of " + std::to_string(key.size()) + " bytes",
          "keys have at most " + std::to_string(limits::kKeyBytesMax) + " bytes");
    }
  }
  return keys;
}

Result<std::string> KeyArgument(const Arguments& args) {
  Result<std::vector<std::string>> keys = KeyArguments(args);
  if (!keys.ok()) return keys.status();
  return std::move(keys->front());
}

Result<v1::ValueKind> KindArgument(const Arguments& args) {
  if (args.Has("--int") && args.Has("--f64"))
    return InvalidArgument("give only one of --int and --f64");
  if (args.Has("--int")) return v1::VALUE_KIND_I64;
  return args.Has("--f64") ? v1::VALUE_KIND_F64 : v1::VALUE_KIND_BYTES;
}

Result<std::string> ValueArgument(const Arguments& args, std::string_view name,
                                  v1::ValueKind kind) {
  Result<ValueSource> source = ValueSource::Open(args.Text(name), args.Has("--literal"));
  if (!source.ok()) return source.status();
  if (source->bytes() > kMessageValueBytesMax) {
    return InvalidArgument(std::string(name) + " is larger than 1 MiB",
                           "only put takes larger values");
  }
  Result<std::string> bytes = source->Rest();
  if (!bytes.ok() || kind == v1::VALUE_KIND_BYTES) return bytes;
  std::string_view text = *bytes;
  if (text.ends_with('\n')) text.remove_suffix(1);  // Comes from `echo 5 | kvctl put ... -`.
  if (kind == v1::VALUE_KIND_I64) {
    const Result<std::int64_t> number = ParseSigned(text);
    if (!number.ok()) return NoNumber(name, number.status());
    return CounterBytes(*number);
  }
  const Result<double> number = ParseCounterF64(text);
  if (!number.ok()) return NoNumber(name, number.status());
  return CounterBytes(*number);
}

Result<std::vector<v1::OperationResult>> ExecuteOn(Channel& channel, const std::string& space,
                                                   std::vector<v1::Operation> operations,
                                                   v1::Receipt* receipt) {
  v1::ExecuteRequest request;
  request.set_namespace_(space);
  request.set_tell_receipt(receipt != nullptr);
  const auto count = operations.size();
  bool changes = false;
  for (v1::Operation& operation : operations) {
    changes = changes || IsChange(operation.kind());
    *request.add_operations() = std::move(operation);
  }
  v1::ExecuteResponse response;
  const Status status =
      channel.Call<v1::Data>(&v1::Data::Stub::Execute, request, &response, request.ByteSizeLong());
  if (status.code() == StatusCode::kDeadlineExceeded && changes) {
    return Status(status.code(),
                  std::string(status.what()) + "; the change may or may not have happened",
                  "read the key to find out, or raise --timeout");
  }
  if (!status.ok()) return status;
  if (static_cast<std::size_t>(response.results_size()) != count) {
    return Status(StatusCode::kInternal, "the daemon answered another number of operations");
  }
  if (receipt != nullptr) *receipt = response.receipt();
  return std::vector<v1::OperationResult>(response.results().begin(), response.results().end());
}

Result<v1::OperationResult> ExecuteOneOn(Channel& channel, const std::string& space,
                                         v1::Operation operation, v1::Receipt* receipt) {
  v1::Operation asked;  // Without the value, for the failure's text.
  asked.set_kind(operation.kind());
  asked.set_key(operation.key());
  std::vector<v1::Operation> operations;
  operations.push_back(std::move(operation));
  Result<std::vector<v1::OperationResult>> results =
      ExecuteOn(channel, space, std::move(operations), receipt);
  if (!results.ok()) return results.status();
  v1::OperationResult& result = results->front();
  Status status = StatusOf(result.status(), asked, space);
  if (!status.ok()) return status;
  return std::move(result);
}

Result<std::vector<v1::OperationResult>> ExecuteAll(Invocation& run,
                                                    std::vector<v1::Operation> operations) {
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  // A look at staged files beside a change has no receipt.
  const bool changes =
      std::any_of(operations.begin(), operations.end(),
                  [](const v1::Operation& operation) { return IsChange(operation.kind()); });
  v1::Receipt receipt;
  v1::Receipt* const told = changes && WantsReceipt(run.args) ? &receipt : nullptr;
  auto results = ExecuteOn(**channel, run.args.Text("NAMESPACE"), std::move(operations), told);
  if (results.ok() && told != nullptr) TellReceipt(run, receipt);
  return results;
}

Result<v1::OperationResult> ExecuteOne(Invocation& run, v1::Operation operation) {
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  const bool tells = IsChange(operation.kind()) && WantsReceipt(run.args);
  v1::Receipt receipt;
  auto result = ExecuteOneOn(**channel, run.args.Text("NAMESPACE"), std::move(operation),
                             tells ? &receipt : nullptr);
  if (result.ok() && tells) TellReceipt(run, receipt);
  return result;
}

Status StatusOf(const v1::OperationStatus& status, const v1::Operation& operation,
                std::string_view space) {
  const StatusCode code = CodeOf(status.code());
  if (code == StatusCode::kOk) return OkStatus();
  const std::string key = "key " + Quote(operation.key()) + " of namespace " + Quote(space);
  switch (code) {
    // With a text, the namespace is absent, and the text names it.
    case StatusCode::kNotFound:
      if (!status.message().empty()) break;
      return Status(code, key + " does not exist", "list keys with: kvctl keys " + Quote(space));
    case StatusCode::kAlreadyExists:
      return Status(code, key + " exists already", "leave out --if-absent to overwrite it");
    case StatusCode::kFailedPrecondition:
      if (!status.message().empty()) break;
      return Status(code, key + PreconditionText(operation), "read it again, then decide");
    case StatusCode::kResourceExhausted:
      if (!status.message().empty()) break;
      return Status(code, "no memory is left for " + key,
                    "delete something, or start the daemons with more --memory");
    case StatusCode::kDataLoss:
      if (!status.message().empty()) break;
      return Status(code, key + " was on a node that lost its data",
                    "go on with what is left: kvctl namespace accept-loss " + Quote(space));
    case StatusCode::kUnknown:
      if (!status.message().empty()) break;
      return Status(code, "whether the change of " + key + " took effect is not known",
                    "read the key to find out");
    case StatusCode::kInvalidArgument:
      if (status.message().empty()) break;
      // Errors about the record do not name the namespace.
      if (status.message().find("'" + std::string(space.substr(0, 60))) == std::string::npos) {
        return SplitRemedy(code, key + ": " + status.message());
      }
      break;
    default:
      break;
  }
  if (status.message().empty()) return Status(code, key + ": " + std::string(StatusCodeName(code)));
  return SplitRemedy(code, status.message());
}

Status SplitRemedy(StatusCode code, std::string_view text) {
  if (!text.ends_with(')')) return Status(code, std::string(text));
  int depth = 0;
  for (std::size_t i = text.size(); i-- > 1;) {
    if (text[i] == ')') ++depth;
    if (text[i] == '(' && --depth == 0) {
      if (text[i - 1] != ' ') break;
      return Status(code, std::string(text.substr(0, i - 1)),
                    std::string(text.substr(i + 1, text.size() - i - 2)));
    }
  }
  return Status(code, std::string(text));
}

}  // namespace tidepool::cli
