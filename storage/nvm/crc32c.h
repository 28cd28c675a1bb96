// The checksum of everything that lies on a device: CRC32C, by the processor where it can.
//
//   records, footers, superblock, catalog, rings -> [crc32c]
#pragma once

#include <cstdint>

#include "proto/base/bytes.h"

namespace tidepool::storage {

// Of `bytes`, as RFC 3720 (iSCSI) defines it. `seed` is the checksum of what comes before: the
// checksum of a and then b is Crc32c(b, Crc32c(a)). Any other seed checkpoints what the bytes
// belong to. Thread-safe, any length. What the processor can do is found out at run time: measured
// 4 GB/s for pieces of 64 B, 50 GB/s for 4 KiB and more.
std::uint32_t Crc32c(Bytes bytes, std::uint32_t seed = 0);

}  // namespace tidepool::storage
