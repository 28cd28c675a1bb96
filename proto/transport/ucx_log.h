// What UCX prints about connections that end.
//
//   ucx_transport -> [ucx_log] -> proto/base/log
#pragma once

namespace tidepool::transport {

// UCX says of each TCP connection that breaks, or is refused, that this is an error, on stdout, in
// the middle of what a user's program prints. The transport sees the same by status and answers for
// it. From the first call on such lines go to the log as debug lines; all others, and all if the
// user has set UCX_LOG_LEVEL, are printed as before. Thread-safe; for the whole process.
void KeepUcxQuietAboutConnections();

}  // namespace tidepool::transport
