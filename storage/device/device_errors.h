// Shared by the devices: refusals of files, and checks of requests.
#pragma once

#include <string>

#include "proto/base/check.h"
#include "storage/device/device.h"

namespace tidepool::storage {

// "cannot <doing> '<path>': <reason>" with the code of errno `error`: kNotFound, kPermissionDenied,
// kResourceExhausted (space, descriptors), else kDeviceError.
Status DeviceFileError(const std::string& doing, const std::string& path, int error);

// kOk, kFailedPrecondition (no regular file, or of fewer than `bytes`), kDeviceError.
Status CheckDeviceFile(int descriptor, const std::string& path, std::uint64_t bytes);

// Ends the program on a request that no device would carry out.
inline void CheckRequest(const DeviceRequest& request, std::uint64_t device_bytes) {
  if (request.operation == DeviceOperation::kFlush) return;
  TP_CHECK(request.bytes > 0);
  TP_CHECK(request.bytes % kDeviceBlockBytes == 0);
  TP_CHECK(request.offset % kDeviceBlockBytes == 0);
  TP_CHECK(reinterpret_cast<std::uintptr_t>(request.data) % kDeviceBlockBytes == 0);
  TP_CHECK(request.offset <= device_bytes);
  TP_CHECK(request.bytes <= device_bytes - request.offset);
}

}  // namespace tidepool::storage
