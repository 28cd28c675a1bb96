// Destination of the lines that UCX prints.
//
//   load of the program or of libtidepool.so, ucx_transport -> [ucx_log] -> proto/base/log
#pragma once

namespace tidepool::transport {

// Routes UCX's lines. UCX writes them to standard output, in the middle of a program's output. From
// the first call on they go to standard error, unless the user has set UCX_LOG_FILE.
//
// UCX also calls each TCP connection that breaks, or is refused, an error. The transport learns of
// it by status and handles it. These lines therefore go to the log as debug lines, unless the user
// has set UCX_LOG_LEVEL.
//
// Runs once by itself when this code is loaded, before main(); later calls do nothing. Thread-safe;
// for the whole process, with a UCX of the program's own (of MPI, for example).
void RouteUcxLog();

}  // namespace tidepool::transport
