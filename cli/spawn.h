// Starting daemons that outlive kvctl, and watching over processes that are not its children.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "proto/base/result.h"

namespace tidepool::cli {

// The kvd to start: $TIDEPOOL_KVD, else the one beside this program. Errors: kNotFound.
Result<std::string> FindDaemonProgram();

// Starts `program` in a session of its own, so that no signal of this terminal reaches it, with
// standard input closed and both outputs appended to `log`. Errors: kNotFound, kPermissionDenied,
// kResourceExhausted, kInternal.
Result<pid_t> SpawnDetached(const std::string& program, const std::vector<std::string>& arguments,
                            const std::string& log);

// True if child `pid` has ended; takes its status then, so it is asked once.
bool ChildHasEnded(pid_t pid);

// True if there is a process `pid` of program kvd, whoever started it.
bool IsDaemonAlive(pid_t pid);

// The last line of a file that says something, or "".
std::string LastLine(const std::string& path);

}  // namespace tidepool::cli
