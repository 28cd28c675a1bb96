// Environment that must be set before libucs is loaded. The first call in kvd's main(). The client
// library never uses it, because its process belongs to the user.
#pragma once

#include <cstdint>

#include "proto/base/status.h"

namespace tidepool::transport {

// Ensures the environment of libucs. Loading libucs installs handlers for SEGV, BUS, ILL, FPE and
// HUP before main() runs, and only the environment can prevent it (ucx_signals.h gives them back
// where it may not be changed). If a variable is missing, sets it and executes this program again
// with its arguments and process id, once; then (and if no variable was missing) returns.
// UCX_HANDLE_ERRORS=none and UCX_DEBUG_SIGNO=0 are forced; UCX_LOG_LEVEL=fatal and
// UCX_WARN_UNUSED_ENV_VARS=n are only defaults. Call it before any thread is started and before
// descriptors are opened. Returns: kOk, kUnavailable (the program could not be executed again; it
// may go on, but UCX then prints a line for each client that was killed).
Status EnterUcxEnvironment(char** argv);

// Raises the limit of open file descriptors as far as this user may and returns it. A connection
// takes 1 or 2; near the limit the transport refuses further connections (kResourceExhausted).
std::uint64_t RaiseDescriptorLimit();

}  // namespace tidepool::transport
