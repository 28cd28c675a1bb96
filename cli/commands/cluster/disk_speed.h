// How fast a directory for kvd --nvm-dir is, by a file without a name that is gone afterwards.
#pragma once

#include <cstdint>
#include <string>

#include "proto/base/result.h"

namespace tidepool::cli {

struct DiskSpeed {
  std::string file_system;  // "ext4", "tmpfs", "nfs", ...; a number if the type is unknown.
  bool is_memory = false;   // tmpfs, ramfs.
  bool is_shared = false;   // A network's.
  bool direct = false;      // Has O_DIRECT.
  bool dax = false;         // Can be mapped with MAP_SYNC: persistent memory.
  std::uint64_t free_bytes = 0;
  std::uint64_t write_bytes_per_s = 0;
  std::uint64_t read_bytes_per_s = 0;
  // Medians: 4 KiB written and synchronised, which `sync` waits for; and 4 KiB read at a random
  // place, which a read of a spilled record waits for.
  std::uint64_t sync_ns = 0;
  std::uint64_t read_ns = 0;
};

// Takes some 100 ms on an SSD, at most about 5 s. Errors: kNotFound, kPermissionDenied,
// kInvalidArgument (no directory), kResourceExhausted (not 8 MiB free), kDeviceError.
Result<DiskSpeed> MeasureDisk(const std::string& directory);

}  // namespace tidepool::cli
