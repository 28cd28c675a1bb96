// Chooses the device of a file by what PMDK reports about it.
//
//   nvm/volume -> [open_device] -> dax_device, file_device
#pragma once

#include <memory>
#include <string>

#include "storage/device/device.h"

namespace tidepool::storage {

// The first `bytes` (whole blocks) of the file `path`: a DaxDevice where single cache lines or
// bytes persist, a FileDevice elsewhere. Errors: as FileDevice::Open.
// PMEM2_FORCE_GRANULARITY=CACHE_LINE in the environment overrides what PMDK finds: for tests only,
// since what it then calls durable is not.
Result<std::unique_ptr<Device>> OpenDevice(const std::string& path, std::uint64_t bytes);

}  // namespace tidepool::storage
