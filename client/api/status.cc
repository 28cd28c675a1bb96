#include "tidepool/status.h"

#include <cstdio>
#include <string>

#include "tidepool/receipt.h"

namespace tidepool {

ExitCode ExitCodeOf(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return ExitCode::kOk;
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnimplemented:
      return ExitCode::kUsage;
    case StatusCode::kNotFound:
      return ExitCode::kNotFound;
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kUnknown:
      return ExitCode::kTimeout;
    case StatusCode::kUnavailable:
      return ExitCode::kUnreachable;
    default:
      return ExitCode::kFailed;
  }
}

int Report(const Status& status) {
  if (!status.ok()) std::fprintf(stderr, "tidepool: %s\n", status.ToString().c_str());
  return static_cast<int>(ExitCodeOf(status.code()));
}

std::string_view LevelName(Receipt::Level level) {
  switch (level) {
    case Receipt::Level::kNone:
      return "none";
    case Receipt::Level::kMemory:
      return "memory";
    case Receipt::Level::kNextCheckpoint:
      return "next-checkpoint";
    case Receipt::Level::kDevice:
      return "device";
  }
  return "none";
}

}  // namespace tidepool
