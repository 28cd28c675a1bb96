// The one place that says what an errno of a system call about files means.
#pragma once

#include <cerrno>

#include "proto/base/status.h"

namespace tidepool {

// Returns `otherwise` for every number that means something else in each place, such as ENOTDIR: no
// such file for a reader, something in the way for a writer.
constexpr StatusCode CodeOfErrno(int error, StatusCode otherwise) {
  switch (error) {
    case ENOENT:
      return StatusCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return StatusCode::kResourceExhausted;
    case EIO:
      return StatusCode::kDeviceError;
    case ENAMETOOLONG:
      return StatusCode::kInvalidArgument;
    default:
      return otherwise;
  }
}

}  // namespace tidepool
