// Usage that the daemons report, over gRPC with the published messages.
#pragma once

#include <tidepool/tidepool.h>

#include <cstdint>

namespace support {

struct NodeUsage {
  std::uint64_t memory_bytes = 0;  // DRAM, index and buffers included.
  std::uint64_t device_bytes = 0;  // In use on devices.
  std::uint64_t read_bytes = 0;    // From devices since the daemons' start.
};

// Returns the usage of all nodes that are up. Errors: kNotFound (the job token), kUnavailable (a
// node does not answer).
tidepool::Result<NodeUsage> UsageOf(const tidepool::Client& client);

}  // namespace support
