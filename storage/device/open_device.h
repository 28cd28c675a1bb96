// Chooses the device of a file by PMDK's report about it.
//
//   nvm/volume -> [open_device] -> dax_device, file_device
#pragma once

#include <memory>
#include <string>

#include "storage/device/device.h"

namespace tidepool::storage {

// Opens the first `bytes` (whole blocks) of the file `path`: a DaxDevice if single cache lines or
// bytes persist, otherwise a FileDevice. Errors: as FileDevice::Open.
// PMEM2_FORCE_GRANULARITY=CACHE_LINE in the environment overrides PMDK's report: for tests only,
// since data that PMDK then calls durable is not.
Result<std::unique_ptr<Device>> OpenDevice(const std::string& path, std::uint64_t bytes);

}  // namespace tidepool::storage
