// Resource limits that would make a daemon fail later: refused or reported when it starts.
//
//   proto/machine/process_limits -> [start_limits] -> kvd's main(), its log
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/config/options.h"
#include "proto/base/result.h"
#include "proto/machine/process_limits.h"

namespace tidepool::daemon {

// Checks the limits on file size (ulimit -f, which also holds for shared memory), address space
// (-v) and private memory (-d). Returns kResourceExhausted with a remedy if a limit is too small
// for `options`.
Status CheckStartLimits(const Options& options, const machine::ProcessLimits& given);

// Returns the address space that a daemon takes: the arenas of --memory, their index, code, stacks,
// heaps and shared memory of the network. Measured beside the arenas: 0.9 GiB at most.
std::uint64_t AddressesNeeded(std::uint64_t memory_bytes);

// Returns a line for each limit that ends any daemon sooner or later.
std::vector<std::string> LimitWarnings(const machine::ProcessLimits& limits);

}  // namespace tidepool::daemon
