// Notices that this process is a fork of the one that connected: the network library's state is
// then shared with the parent and must not be touched.
#pragma once

#include <cstdint>

namespace tidepool::internal {

// How many forks lie between this process and the first one that asked. One load once registered;
// getpid() would be a system call per operation.
std::uint64_t ForkGeneration();

}  // namespace tidepool::internal
