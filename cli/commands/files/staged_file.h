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

// The head of the file in parts at `path` of NAMESPACE. Errors: kNotFound (no such file in parts),
// kDataLoss (its head cannot be read), and of the call.
Result<v1::StageEntry> FindStagedFile(Invocation& run, std::string_view path);

// Before a single record of KEY is changed: kFailedPrecondition if `path` is a file in parts,
// beside which the record would stand and hide it; else kOk, what else is wrong the change itself
// says.
Status CheckNotStagedFile(Invocation& run, std::string_view path);

// Calls `take` with the file's content in order. Errors: kAborted (it was staged anew or removed
// meanwhile), kDataLoss (its size is not what the head says), and of the service.
Status ReadStagedFile(Invocation& run, const v1::StageEntry& file,
                      const std::function<void(std::string_view)>& take);

// Deletes the file in parts: manifest entry, parts, and its head last, so that a deletion which was
// interrupted can be given again. Errors: of the calls; kAborted (a staging job is at work).
Status DeleteStagedFile(Invocation& run, const v1::StageEntry& file);
// Of these paths the files in parts: one answer for each. Errors: of the call as a whole.
Result<std::vector<Result<v1::StageEntry>>> FindStagedFiles(Invocation& run,
                                                            const std::vector<std::string>& paths);

}  // namespace tidepool::cli
