// Notices that this process is a fork of the process that connected. The network library's state is
// then shared with the parent and must not be touched.
#pragma once

#include <cstdint>

#include "proto/base/status.h"

namespace tidepool::internal {

// Returns the number of forks between this process and the first process that asked. Costs a load
// after the registration; getpid() would be a system call per operation.
std::uint64_t ForkGeneration();

// Counts as a client of this process while it lives. Thread-safe.
class LiveClient {
 public:
  LiveClient();
  ~LiveClient();
  LiveClient(const LiveClient&) = delete;
  LiveClient& operator=(const LiveClient&) = delete;
};

// kFailedPrecondition in a process that was forked, at any remove, while its parent had a client.
// Threads of gRPC and UCX end with the fork, and their locks and connections stay: a second client
// would wait for these threads for ever.
Status CheckMayConnect();

}  // namespace tidepool::internal
