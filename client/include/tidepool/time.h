// Times and durations of the SDK. Options take durations in any unit: `.ttl =
// std::chrono::hours(1)`.
#pragma once

#include <chrono>

namespace tidepool {

// Wall-clock time in milliseconds.
using WallTime = std::chrono::time_point<std::chrono::system_clock, std::chrono::milliseconds>;

// The time to live of a record that does not expire.
inline constexpr std::chrono::milliseconds kForEver = std::chrono::milliseconds::max();

}  // namespace tidepool
