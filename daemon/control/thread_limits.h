// Checks that the limits of this process allow the threads that a daemon starts.
//
//   daemon/kvd -> [thread_limits] -> start_limits (address space)
#pragma once

#include <cstdint>

#include "proto/base/status.h"

namespace tidepool::daemon {

// Starts and ends as many threads as a daemon with `cores` starts, which tests the limits on
// threads (ulimit -u, tasks of a control group). If address space is limited, later threads of this
// process get stacks of 1 MiB, and malloc keeps to four arenas of 64 MiB of addresses each. Call
// once, before the daemon's threads. Errors: kResourceExhausted (fewer threads than a daemon
// starts).
Status PrepareForThreads(std::uint32_t cores);

// Returns how many threads gRPC may use for calls under the limit on address space: 64 to `most`.
int CallThreadsMax(int most, std::uint64_t memory_bytes);

}  // namespace tidepool::daemon
