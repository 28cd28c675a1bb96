// A point in time as file systems keep it: seconds and nanoseconds since 1970. 64 bits of
// nanoseconds alone end in the year 2262, and file systems go on.
#pragma once

#include <time.h>

#include <compare>
#include <cstdint>
#include <optional>

namespace tidepool {

struct FileTime {
  std::int64_t seconds = 0;       // Before 1970: negative.
  std::uint32_t nanoseconds = 0;  // Below 10^9; always forward from `seconds`.

  static constexpr std::int64_t kSecond = 1'000'000'000;

  static constexpr FileTime FromNs(std::int64_t ns) {
    const bool borrow = ns % kSecond < 0;
    return {ns / kSecond - (borrow ? 1 : 0),
            static_cast<std::uint32_t>(ns % kSecond + (borrow ? kSecond : 0))};
  }
  static FileTime Of(const timespec& time) {
    return {time.tv_sec, static_cast<std::uint32_t>(time.tv_nsec)};
  }
  timespec ToTimespec() const {
    timespec time{};
    time.tv_sec = seconds;
    time.tv_nsec = static_cast<long>(nanoseconds);
    return time;
  }
  // Returns nanoseconds since 1970; nullopt before the year 1677 and after 2262.
  constexpr std::optional<std::int64_t> Ns() const {
    // Towards zero: the first step then stays in range wherever the result does.
    const bool borrow = seconds < 0;
    const std::int64_t rest = std::int64_t{nanoseconds} - (borrow ? kSecond : 0);
    std::int64_t ns = 0;
    if (__builtin_mul_overflow(seconds + (borrow ? 1 : 0), kSecond, &ns)) return std::nullopt;
    if (__builtin_add_overflow(ns, rest, &ns)) return std::nullopt;
    return ns;
  }
  // Nanoseconds modulo 2^64, for messages that only compare two times.
  constexpr std::int64_t WrappedNs() const {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(seconds) * kSecond + nanoseconds);
  }

  friend constexpr auto operator<=>(const FileTime&, const FileTime&) = default;
};

// True if `found` is `kept`, or `kept` as a file system with coarser times holds it. Lustre and
// ext3 cut off to seconds, other file systems to micro- or milliseconds or 100 ns.
constexpr bool IsSameFileTime(FileTime kept, FileTime found) {
  if (kept.seconds != found.seconds) return false;
  for (const std::uint32_t unit : {1u, 100u, 1'000u, 1'000'000u, 1'000'000'000u}) {
    if (found.nanoseconds == kept.nanoseconds - kept.nanoseconds % unit) return true;
  }
  return false;
}

}  // namespace tidepool
