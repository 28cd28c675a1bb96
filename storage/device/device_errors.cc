#include "storage/device/device_errors.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "proto/base/errno_code.h"

namespace tidepool::storage {

Status DeviceFileError(const std::string& doing, const std::string& path, int error) {
  const StatusCode otherwise = error == ENOTDIR ? StatusCode::kNotFound : StatusCode::kDeviceError;
  return Status(CodeOfErrno(error, otherwise),
                "cannot " + doing + " '" + path + "': " + std::strerror(error));
}

Status CheckDeviceFile(int descriptor, const std::string& path, std::uint64_t bytes) {
  struct stat info {};
  if (fstat(descriptor, &info) != 0) return DeviceFileError("examine", path, errno);
  if (!S_ISREG(info.st_mode)) {
    return Status(StatusCode::kFailedPrecondition, "'" + path + "' is not a regular file");
  }
  if (static_cast<std::uint64_t>(info.st_size) < bytes) {
    return Status(StatusCode::kFailedPrecondition, "'" + path + "' has " +
                                                       std::to_string(info.st_size) + " of its " +
                                                       std::to_string(bytes) + " bytes");
  }
  return OkStatus();
}

}  // namespace tidepool::storage
