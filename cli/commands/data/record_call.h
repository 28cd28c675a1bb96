// Common parts of the verbs on single records: their arguments, an operation through Data.Execute,
// and the text of its failure.
//
// kvctl put|get|incr|... -> [record_call] -> gRPC Data.Execute => any node -> the key's owner
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/invocation.h"
#include "cli/verb.h"
#include "tidepool/v1/data.pb.h"

namespace tidepool::cli {

// Largest value in a gRPC message; larger values go through Bulk.
inline constexpr std::size_t kMessageValueBytesMax = 1024 * 1024;

// Rows that several verbs have.
Parameter NamespaceParameter();
Parameter KeyParameter();
Parameter ValueParameter();
Option Base64Option();   // KEY is base64, for keys that no command line can carry.
Option LiteralOption();  // VALUE is itself, also "-" and "@...".

// Returns the bytes of `text`, the argument `name`, decoded if --base64 is given.
// Errors: kInvalidArgument (not base64; the text begins with `name`).
Result<std::string> BytesArgument(const Arguments& args, std::string_view name,
                                  const std::string& text);
// The KEY arguments. Errors: kInvalidArgument (not base64, too long).
Result<std::vector<std::string>> KeyArguments(const Arguments& args);
Result<std::string> KeyArgument(const Arguments& args);

// Returns the VALUE argument `name` as bytes for a value of `kind`; with --int and --f64 its
// number.
// Errors: the errors of ValueSource::Open; kInvalidArgument (not a number, larger than a message).
Result<std::string> ValueArgument(const Arguments& args, std::string_view name, v1::ValueKind kind);
// By --int and --f64, of a verb that has both. Errors: kInvalidArgument (both).
Result<v1::ValueKind> KindArgument(const Arguments& args);

// Executes `operations` on `space`, and returns a result for each, whatever their statuses. Several
// threads may use a channel for this. `receipt`: receives the durability of the changes; null:
// unused.
// Errors: the errors of the call as a whole.
Result<std::vector<v1::OperationResult>> ExecuteOn(Channel& channel, const std::string& space,
                                                   std::vector<v1::Operation> operations,
                                                   v1::Receipt* receipt = nullptr);
// Executes an operation; its failure is the call's failure.
Result<v1::OperationResult> ExecuteOneOn(Channel& channel, const std::string& space,
                                         v1::Operation operation, v1::Receipt* receipt = nullptr);
// Executes `operations` on NAMESPACE, reports their receipt (receipt.h), and returns a result for
// each, whatever their statuses. Errors: the errors of the call as a whole.
Result<std::vector<v1::OperationResult>> ExecuteAll(Invocation& run,
                                                    std::vector<v1::Operation> operations);
// Executes an operation; its failure is the call's failure.
Result<v1::OperationResult> ExecuteOne(Invocation& run, v1::Operation operation);

// Returns the end of an operation as a sentence: the daemon's text, or kvctl's own.
Status StatusOf(const v1::OperationStatus& status, const v1::Operation& operation,
                std::string_view space);

// Separates "text (remedy)": texts of single operations travel as a single string.
Status SplitRemedy(StatusCode code, std::string_view text);

}  // namespace tidepool::cli
