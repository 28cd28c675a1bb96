// What the machine gives: two threads that pass lines of shared memory to each other, copies of
// memory, and bare UCX in bulk.
#pragma once

#include <cstddef>
#include <vector>

#include "tests/bench/fast/sample.h"

namespace tidepool::bench {

// Round trips of `payload_bytes` each way through shared memory, both sides polling.
Sample RingFloor(double seconds, std::size_t payload_bytes);

// memcpy between buffers of `pool_bytes` (at most 128 MiB) each, `bytes` at a time, from place to
// place.
Sample CopyFloor(double seconds, std::size_t bytes, std::size_t pool_bytes);

// Messages of `bytes` one way, by ucx_perftest over TCP on loopback.
Sample UcxBulkFloor(std::size_t bytes);

}  // namespace tidepool::bench
