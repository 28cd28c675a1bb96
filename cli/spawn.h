// Starting daemons that outlive kvctl, and watching over processes that are not its children.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/base/result.h"

namespace tidepool::cli {

// Returns the kvd to start: $TIDEPOOL_KVD, otherwise the kvd beside this program. Errors:
// kNotFound.
Result<std::string> FindDaemonProgram();

// Starts `program` in a session of its own, so that no signal of this terminal reaches it. Closes
// its standard input, and appends both outputs to `log`. Errors: kNotFound, kPermissionDenied,
// kResourceExhausted, kInternal.
Result<pid_t> SpawnDetached(const std::string& program, const std::vector<std::string>& arguments,
                            const std::string& log);

// Returns both outputs of `command`, found in PATH. Kills it after `timeout_ms`. Errors: kNotFound
// (no program of that name), kUnavailable (it fails, or takes too long), and the errors of
// SpawnDetached.
Result<std::string> OutputOf(const std::vector<std::string>& command, std::uint64_t timeout_ms);

// Returns the path of `program` in PATH; a name with a slash stays as it is. Errors: kNotFound.
Result<std::string> FindInPath(const std::string& program);

// True if child `pid` has ended. Takes its status, so ask only once after the end.
bool ChildHasEnded(pid_t pid);
// Returns the exit code of an ended child, or 128 + signal.
std::optional<int> ChildExitCode(pid_t pid);
// Returns the text of a ChildExitCode for people: "exit code 1", "SIGKILL".
std::string EndText(int code);

// True if there is a process `pid` of program kvd, whoever started it.
bool IsDaemonAlive(pid_t pid);
// True if `pid` runs `program`, a name of 15 characters at most.
bool IsProgramAlive(pid_t pid, const std::string& program);

// The last lines of a file that say something, `count` at most.
std::vector<std::string> LastLines(const std::string& path, std::size_t count);
// Returns the last line, or "".
std::string LastLine(const std::string& path);
// Returns the last line of a daemon's log, if it has the reason of the daemon's end; otherwise "".
std::string ReasonIn(const std::string& log);

}  // namespace tidepool::cli
