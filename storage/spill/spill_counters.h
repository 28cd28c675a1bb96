// Counters of a spiller, for displays that need not include the log.
//
//   Spiller -> [SpillCounters] -> CoreStats -> status, metrics
#pragma once

#include <cstdint>

namespace tidepool::storage {

struct SpillCounters {
  std::uint64_t spilled_segments = 0;   // Written so far.
  std::uint64_t returned_segments = 0;  // Read back to be compacted.
  std::uint64_t written_bytes = 0;
  std::uint64_t record_bytes = 0;  // Bytes of records that had not been on a device before.
  std::uint64_t read_bytes = 0;
  std::uint64_t reads = 0;         // Reads of records.
  std::uint64_t failed_reads = 0;  // By the device, or by the checksum.
  std::uint64_t failed_writes = 0;
  std::uint64_t freed_cache_segments = 0;  // Segments of the read cache.
};

}  // namespace tidepool::storage
