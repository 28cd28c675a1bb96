// Gives back the signals that UCX takes when it is loaded.
//
//   load of the program or of libtidepool.so, ucx_transport -> [ucx_signals] -> UCX
#pragma once

namespace tidepool::transport {

// Restores the action that each signal had before UCX was loaded. Loading libucs installs handlers
// for SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGHUP. UCX's handler of SIGHUP does not end the process:
// a closed terminal would not end a program. Restores only where the present handler is UCX's own:
// a handler of the program, or of another library, stays. With UCX_HANDLE_ERRORS set, UCX's
// handlers of errors stay; with UCX_DEBUG_SIGNO set, its handler of that signal.
// Runs once by itself when this code is loaded, before main(); later calls find nothing to do.
// Returns the number of signals that were given back.
int GiveBackSignals();

}  // namespace tidepool::transport
