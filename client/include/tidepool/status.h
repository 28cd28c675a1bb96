// Outcomes of calls: Status, Result<T>, exit codes and error output.
#pragma once

#include "tidepool/base/result.h"
#include "tidepool/base/status.h"
#include "tidepool/export.h"

namespace tidepool {

// Exit codes of kvctl, and of programs that use Report.
enum class ExitCode : int {
  kOk = 0,
  kFailed = 1,
  kUsage = 2,  // Wrong arguments.
  kNotFound = 3,
  kTimeout = 4,      // No answer; a change may or may not have taken effect.
  kUnreachable = 5,  // The cluster or a needed node cannot be reached.
  kPartial = 6,      // Some parts of a larger task succeeded, others failed.
};

// Maps kOk to kOk, kInvalidArgument and kUnimplemented to kUsage, kNotFound to kNotFound,
// kDeadlineExceeded and kUnknown to kTimeout, kUnavailable to kUnreachable, all others to kFailed.
TIDEPOOL_API ExitCode ExitCodeOf(StatusCode code);

// Prints a failure as one line on standard error; prints nothing for kOk. Returns the exit code, so
// that main() can end with `return tidepool::Report(status);`.
TIDEPOOL_API int Report(const Status& status);

}  // namespace tidepool
