// How calls end: Status, Result<T>, and their way to the user and the shell.
#pragma once

#include "tidepool/base/result.h"
#include "tidepool/base/status.h"
#include "tidepool/export.h"

namespace tidepool {

// What programs on Tidepool, kvctl among them, end with.
enum class ExitCode : int {
  kOk = 0,
  kFailed = 1,
  kUsage = 2,  // Wrong arguments.
  kNotFound = 3,
  kTimeout = 4,      // No answer; a change may or may not have taken effect.
  kUnreachable = 5,  // No cluster, or the node in question cannot be reached.
  kPartial = 6,      // Some parts of a larger task succeeded, others failed.
};

// kOk -> kOk, kInvalidArgument and kUnimplemented -> kUsage, kNotFound -> kNotFound,
// kDeadlineExceeded and kUnknown -> kTimeout, kUnavailable -> kUnreachable, all others -> kFailed.
TIDEPOOL_API ExitCode ExitCodeOf(StatusCode code);

// Prints a failure as one line on standard error, and nothing for kOk. Returns the exit code, so
// that main() can end with `return tidepool::Report(status);`.
TIDEPOOL_API int Report(const Status& status);

}  // namespace tidepool
