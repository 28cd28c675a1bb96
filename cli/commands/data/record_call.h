// What the verbs on single records share: their arguments, one operation through Data.Execute, and
// the text of its failure.
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

// What one gRPC message may carry; larger values go through Bulk.
inline constexpr std::size_t kMessageValueBytesMax = 1024 * 1024;

// Rows that several verbs have.
Parameter NamespaceParameter();
Parameter KeyParameter();
Parameter ValueParameter();
Option Base64Option();   // KEY is base64, for keys that no command line can carry.
Option LiteralOption();  // VALUE is itself, also "-" and "@...".

// The bytes of `text`, that was given as `name`: with --base64 what it stands for.
// Errors: kInvalidArgument (not base64; the text begins with `name`).
Result<std::string> BytesArgument(const Arguments& args, std::string_view name,
                                  const std::string& text);
// The KEY arguments. Errors: kInvalidArgument (not base64, too long).
Result<std::vector<std::string>> KeyArguments(const Arguments& args);
Result<std::string> KeyArgument(const Arguments& args);

// The VALUE argument `name` as bytes for a value of `kind`: with --int and --f64 its number.
// Errors: as ValueSource::Open; kInvalidArgument (not a number, larger than one message).
Result<std::string> ValueArgument(const Arguments& args, std::string_view name, v1::ValueKind kind);
// By --int and --f64, of a verb that has both. Errors: kInvalidArgument (both).
Result<v1::ValueKind> KindArgument(const Arguments& args);

// Executes `operations` on `space` and gives one result for each, whatever their statuses. Several
// threads may use one channel so. `receipt`: where to tell how safe the changes are; null: nowhere.
// Errors: of the call as a whole.
Result<std::vector<v1::OperationResult>> ExecuteOn(Channel& channel, const std::string& space,
                                                   std::vector<v1::Operation> operations,
                                                   v1::Receipt* receipt = nullptr);
// One operation; its failure is the call's.
Result<v1::OperationResult> ExecuteOneOn(Channel& channel, const std::string& space,
                                         v1::Operation operation, v1::Receipt* receipt = nullptr);
// Executes `operations` on NAMESPACE, tells their receipt (receipt.h), and gives one result for
// each, whatever their statuses. Errors: of the call as a whole.
Result<std::vector<v1::OperationResult>> ExecuteAll(Invocation& run,
                                                    std::vector<v1::Operation> operations);
// One operation; its failure is the call's.
Result<v1::OperationResult> ExecuteOne(Invocation& run, v1::Operation operation);

// How one operation ended, as a sentence: the daemon's text if there is one, else ours.
Status StatusOf(const v1::OperationStatus& status, const v1::Operation& operation,
                std::string_view space);

// Takes "what (remedy)" apart again: texts of single operations travel in one piece.
Status SplitRemedy(StatusCode code, std::string_view text);

}  // namespace tidepool::cli
