#include "storage/device/open_device.h"

#include "storage/device/dax_device.h"
#include "storage/device/file_device.h"

namespace tidepool::storage {

Result<std::unique_ptr<Device>> OpenDevice(const std::string& path, std::uint64_t bytes) {
  auto mapped = DaxDevice::Open(path, bytes);
  if (mapped.code() != StatusCode::kUnimplemented) return mapped;
  return FileDevice::Open(path, bytes);
}

}  // namespace tidepool::storage
