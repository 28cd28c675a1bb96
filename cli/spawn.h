// Starting daemons that outlive kvctl, and watching over processes that are not its children.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
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

// What `command`, found in PATH, prints on both outputs. It is killed after `timeout_ms`. Errors:
// kNotFound (no such program), kUnavailable (it fails, or takes too long), as SpawnDetached.
Result<std::string> OutputOf(const std::vector<std::string>& command, std::uint64_t timeout_ms);

// Where PATH has `program`; one with a slash as it is. Errors: kNotFound.
Result<std::string> FindInPath(const std::string& program);

// True if child `pid` has ended; takes its status then, so it is asked once.
bool ChildHasEnded(pid_t pid);
// The same with its exit code, or 128 + signal.
std::optional<int> ChildExitCode(pid_t pid);
// Returns what ChildExitCode says for people: "exit code 1", "SIGKILL".
std::string EndText(int code);

// True if there is a process `pid` of program kvd, whoever started it.
bool IsDaemonAlive(pid_t pid);
// The same of another program, by its name of 15 characters at most.
bool IsProgramAlive(pid_t pid, const std::string& program);

// The last lines of a file that say something, `count` at most.
std::vector<std::string> LastLines(const std::string& path, std::size_t count);
// The last one, or "".
std::string LastLine(const std::string& path);
// The same of a daemon's log, if that line says why the daemon has ended; else "".
std::string ReasonIn(const std::string& log);

}  // namespace tidepool::cli
