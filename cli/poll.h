// Time between two looks at a process or a daemon that kvctl waits for.
//
//   launch_*, commands/{start,stop,wait_ready} -> [poll]
#pragma once

#include <chrono>

namespace tidepool::cli {

inline constexpr std::chrono::milliseconds kPollEvery{20};

}  // namespace tidepool::cli
