// Between the durations of the public headers and the numbers that travel.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>

#include "proto/base/clock.h"
#include "tidepool/time.h"

namespace tidepool::internal {

// Bound on timeouts, so that sums with the clock do not overflow.
inline constexpr std::chrono::milliseconds kTimeoutMax{Deadline::kMsMax};

// Returns a time to live for the wire, where 0 means for ever. A negative time has already passed,
// so the record expires at once.
constexpr std::uint64_t ToTtlMs(std::chrono::milliseconds ttl) {
  if (ttl == kForEver) return 0;
  return ttl.count() < 0 ? 1 : static_cast<std::uint64_t>(ttl.count());
}

// Returns the time that a record has left, from an answer: numbers beyond the range are for ever.
constexpr std::chrono::milliseconds FromTtlMs(std::uint64_t ms) {
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return ms >= kMax ? kForEver : std::chrono::milliseconds(static_cast<std::int64_t>(ms));
}

// Returns the moment `ms` after 1970; nothing for 0.
constexpr std::optional<WallTime> FromWallMs(std::uint64_t ms) {
  if (ms == 0) return std::nullopt;
  return WallTime(FromTtlMs(ms));
}

}  // namespace tidepool::internal
