// How long the two ends of a move wait for each other and for their cores.
//
//   send_partition, receive_partition -> [move_deadlines]
#pragma once

#include <cstdint>

namespace tidepool::daemon {

// A core that is asked for a chunk, or to freeze.
inline constexpr std::uint64_t kCoreMs = 5'000;
// The coordinator's answer to a request for a grant.
inline constexpr std::uint64_t kGrantMs = 2'000;
// The pause before a refused request is repeated.
inline constexpr std::uint64_t kAskAgainMs = 100;

}  // namespace tidepool::daemon
