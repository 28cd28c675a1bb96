// Whether the limits of this process give a daemon the threads that it starts.
//
//   daemon/kvd -> [thread_limits] -> start_limits (address space)
#pragma once

#include <cstdint>

#include "proto/base/status.h"

namespace tidepool::daemon {

// Checks the limits on threads (ulimit -u, tasks of a control group) for a daemon with `cores`:
// starts and ends as many threads as a daemon starts. Where address space is limited, later threads
// of this process get stacks of 1 MiB and malloc keeps to four arenas, of 64 MiB of addresses each.
// Once, before the daemon's threads. Errors: kResourceExhausted (fewer threads than a daemon
// starts).
Status PrepareForThreads(std::uint32_t cores);

// How many threads gRPC may take for calls under the limit on address space: 64 to `most`.
int CallThreadsMax(int most, std::uint64_t memory_bytes);

}  // namespace tidepool::daemon
