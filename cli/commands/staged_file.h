// Staged files above 64 MiB, which are stored in parts: found and read by their path.
//
// kvctl get|keys|dump|delete -> [staged_file] -> gRPC Data (the file's head), Bulk (its parts)
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cli/invocation.h"
#include "tidepool/v1/staging.pb.h"

namespace tidepool::cli {

// The head of the file in parts at `path` of NAMESPACE. Errors: kNotFound (no such file in parts),
// kDataLoss (its head cannot be read), and of the call.
Result<v1::StageEntry> FindStagedFile(Invocation& run, std::string_view path);

// Calls `take` with the file's content in order. Errors: kAborted (it was staged anew or removed
// meanwhile), kDataLoss (its size is not what the head says), and of the service.
Status ReadStagedFile(Invocation& run, const v1::StageEntry& file,
                      const std::function<void(std::string_view)>& take);

// Deletes the file in parts: manifest entry, parts, and its head last, so that a deletion which was
// interrupted can be given again. Errors: of the calls; kAborted (a staging job is at work).
Status DeleteStagedFile(Invocation& run, const v1::StageEntry& file);

}  // namespace tidepool::cli
