#include "proto/transport/process_environment.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string>

namespace tidepool::transport {
namespace {

// Present in the second life only; it stops a loop if something strips our variables on the way.
constexpr const char* kGuardVariable = "TIDEPOOL_EXECUTED_AGAIN";

struct Variable {
  const char* name;
  const char* value;
  bool is_forced;
};
constexpr Variable kVariables[] = {
    {"UCX_HANDLE_ERRORS", "none", true},
    {"UCX_DEBUG_SIGNO", "0", true},
    {"UCX_LOG_LEVEL", "fatal", false},  // A killed client makes UCX print "connect() failed".
    {"UCX_WARN_UNUSED_ENV_VARS", "n", false},
};

bool IsRight(const Variable& variable) {
  const char* value = std::getenv(variable.name);
  if (value == nullptr) return false;
  return !variable.is_forced || std::strcmp(value, variable.value) == 0;
}

}  // namespace

Status EnterUcxEnvironment(char** argv) {
  const bool is_second_life = std::getenv(kGuardVariable) != nullptr;
  unsetenv(kGuardVariable);  // Not for child processes.
  bool is_complete = true;
  for (const Variable& variable : kVariables) {
    if (IsRight(variable)) continue;
    is_complete = false;
    setenv(variable.name, variable.value, 1);
  }
  if (is_complete) return OkStatus();
  if (is_second_life) {
    return Status(StatusCode::kUnavailable, "the environment was changed while kvd started again",
                  "set UCX_HANDLE_ERRORS=none and UCX_DEBUG_SIGNO=0 before starting it");
  }
  setenv(kGuardVariable, "1", 1);
  // First by its own path: ps and top then show the program's name and not "exe".
  char path[PATH_MAX];
  const ssize_t bytes = readlink("/proc/self/exe", path, sizeof path - 1);
  if (bytes > 0) {
    path[bytes] = '\0';
    execv(path, argv);
  }
  execv("/proc/self/exe", argv);
  const std::string why = std::strerror(errno);
  unsetenv(kGuardVariable);
  return Status(StatusCode::kUnavailable, "the program cannot execute itself again: " + why,
                "set UCX_HANDLE_ERRORS=none and UCX_DEBUG_SIGNO=0 before starting it");
}

std::uint64_t RaiseDescriptorLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

}  // namespace tidepool::transport
