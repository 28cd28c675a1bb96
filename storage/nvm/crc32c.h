// The checksum of everything that lies on a device: CRC32C, by the processor where it can.
//
//   records, footers, superblock, catalog, rings -> [crc32c]
#pragma once

#include <cstdint>

#include "proto/base/bytes.h"

namespace tidepool::storage {

// Returns the checksum of `bytes` after RFC 3720 (iSCSI). `seed` is the checksum of the bytes
// before: the checksum of a and then b is Crc32c(b, Crc32c(a)). Any other seed checkpoints the
// owner of the bytes. Thread-safe, any length. The processor's instructions are chosen at run time:
// measured 4 GB/s for pieces of 64 B, 50 GB/s for 4 KiB and more.
std::uint32_t Crc32c(Bytes bytes, std::uint32_t seed = 0);

}  // namespace tidepool::storage
