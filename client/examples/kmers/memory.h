// What the daemons hold, as they say themselves over gRPC.
#pragma once

#include <tidepool/tidepool.h>

#include <cstdint>

namespace kmers {

// Bytes of index, segments and buffers in use on all nodes that are up: other collections count
// too, so take the difference of two calls.
// Errors: kUnavailable (a node does not answer), kNotFound (the token's file).
tidepool::Result<std::uint64_t> DaemonBytes(const tidepool::Client& client);

}  // namespace kmers
