// A call of kvctl in a process that may start no thread.
#include "cli/channel.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

namespace tidepool::cli {
namespace {

constexpr uid_t kUser = 54'243;

// Runs `body` in a process of a user who may start no thread. Returns the result of `body`.
template <typename Body>
bool WithoutThreads(const Body& body) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit none{0, 0};
    const bool limited =
        setrlimit(RLIMIT_NPROC, &none) == 0 && (getuid() != 0 || setuid(kUser) == 0);
    _exit(limited && body() ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_CASE("AGuardOfACallWithoutAThreadSaysSoInsteadOfEndingTheProcess") {
  CHECK(WithoutThreads([] {
    grpc::ClientContext context;
    const StallGuard guard(&context, 60'000);
    return guard.begun().code() == StatusCode::kResourceExhausted &&
           !guard.begun().remedy().empty();
  }));
}

TEST_CASE("AGuardOfACallWithAThreadHasBegun") {
  grpc::ClientContext context;
  const StallGuard guard(&context, 60'000);
  CHECK(guard.begun().ok());
  CHECK_FALSE(guard.stalled());
}

}  // namespace
}  // namespace tidepool::cli
