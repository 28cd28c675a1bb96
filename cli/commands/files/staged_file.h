// Staged files above 64 MiB, which are stored in parts: found and read by their path.
//
// kvctl get|put|incr|...|keys|dump|delete -> [staged_file] -> gRPC Data (the file's head), Bulk
// (its parts)
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/invocation.h"
#include "tidepool/v1/staging.pb.h"

namespace tidepool::cli {

// Returns the head of the file in parts at `path` of NAMESPACE. Errors: kNotFound (no file in parts
// at this path), kDataLoss (its head cannot be read), and the errors of the call.
Result<v1::StageEntry> FindStagedFile(Invocation& run, std::string_view path);

// Checks before the change of a single record of KEY. Returns kFailedPrecondition if `path` is a
// file in parts, because the record would hide it. Otherwise returns kOk; the change reports other
// errors.
Status CheckNotStagedFile(Invocation& run, std::string_view path);

// Calls `take` with the file's content in order. Errors: kAborted (it was staged again or removed
// meanwhile), kDataLoss (its size differs from the head), and the errors of the service.
Status ReadStagedFile(Invocation& run, const v1::StageEntry& file,
                      const std::function<void(std::string_view)>& take);

// Deletes the file in parts: manifest entry, parts, and at last its head. An interrupted deletion
// can be repeated. Errors: the errors of the calls; kAborted (a staging job is at work).
Status DeleteStagedFile(Invocation& run, const v1::StageEntry& file);
// Finds the files in parts among these paths: an answer for each path. Errors: the errors of the
// call as a whole.
Result<std::vector<Result<v1::StageEntry>>> FindStagedFiles(Invocation& run,
                                                            const std::vector<std::string>& paths);

}  // namespace tidepool::cli
