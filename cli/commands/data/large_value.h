// Values above 1 MiB, in parts through Bulk.
//
// kvctl put|get|load -> [large_value] -> gRPC Bulk.WriteValue, Bulk.ReadValue
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "cli/channel.h"
#include "tidepool/v1/bulk.pb.h"

namespace tidepool::cli {

inline constexpr std::size_t kLargeValuePartBytes = 1024 * 1024;

// `next` gives the parts, at most kLargeValuePartBytes each, and an empty part at the end. The
// value is written only if all parts arrive. Returns: the new version, with the receipt. Errors:
// the errors of `next` and of the service.
Result<v1::WriteValueResponse> WriteLargeValue(
    Channel& channel, const v1::WriteValueRequest::Start& start,
    const std::function<Result<std::string_view>()>& next);

// Calls `take` with each part in order, also with the parts before a failure. Errors: the errors of
// the service; kDataLoss (the stream ended before the value did).
Status ReadLargeValue(Channel& channel, const v1::ReadValueRequest& request,
                      const std::function<void(const v1::ReadValueResponse&)>& take);

}  // namespace tidepool::cli
