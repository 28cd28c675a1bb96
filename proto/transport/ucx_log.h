// Where the lines go that UCX prints.
//
//   load of the program or of libtidepool.so, ucx_transport -> [ucx_log] -> proto/base/log
#pragma once

namespace tidepool::transport {

// UCX writes its lines to standard output, in the middle of what a program prints. From the first
// call on they go to standard error, unless the user has set UCX_LOG_FILE.
//
// UCX also calls each TCP connection that breaks, or is refused, an error. The transport learns of
// that by status and answers for it, so these lines go to the log as debug lines, unless the user
// has set UCX_LOG_LEVEL.
//
// Runs once by itself when this code is loaded, before main(); later calls do nothing. Thread-safe;
// for the whole process, a UCX of the program's own (of MPI, for example) included.
void RouteUcxLog();

}  // namespace tidepool::transport
