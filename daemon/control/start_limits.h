// Resource limits under which a daemon would fail later, refused or told when it starts.
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

// Returns kResourceExhausted, with the remedy, if a limit is too small for what `options` ask for:
// of the size of files (ulimit -f, which holds for shared memory, too), of address space (-v), of
// private memory (-d).
Status CheckStartLimits(const Options& options, const machine::ProcessLimits& given);

// How much address space a daemon takes: the arenas of --memory, their index, code, stacks, heaps
// and shared memory of the network. Measured beside the arenas: 0.9 GiB at most.
std::uint64_t AddressesNeeded(std::uint64_t memory_bytes);

// Returns a line for each limit that ends the daemon one day, whatever the options are.
std::vector<std::string> LimitWarnings(const machine::ProcessLimits& limits);

}  // namespace tidepool::daemon
