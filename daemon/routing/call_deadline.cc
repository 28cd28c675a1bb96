#include "daemon/routing/call_deadline.h"

#include <algorithm>
#include <chrono>

#include "proto/base/limits.h"

namespace tidepool::daemon {
namespace {

constexpr std::uint64_t kEarlyMs = 200;

}  // namespace

Deadline DeadlineOf(const grpc::ServerContextBase& call) {
  using std::chrono::milliseconds;
  constexpr std::int64_t kLongestMs = 3'600'000;
  const auto at = call.deadline();
  if (at == std::chrono::system_clock::time_point::max()) {
    return Deadline::AfterMs(limits::kCallTimeoutMs);
  }
  const auto left =
      std::chrono::duration_cast<milliseconds>(at - std::chrono::system_clock::now()).count();
  return Deadline::AfterMs(
      static_cast<std::uint64_t>(std::clamp<std::int64_t>(left, 0, kLongestMs)));
}

Deadline StepDeadline() { return Deadline::AfterMs(limits::kCallTimeoutMs); }

Deadline RoomDeadline() { return Deadline::AfterMs(limits::kRoomTimeoutMs); }

Deadline WriteDeadlineOf(const grpc::ServerContextBase& call) {
  const std::uint64_t left_ms = DeadlineOf(call).LeftNs() / 1'000'000;
  return Deadline::AfterMs(left_ms - std::min(kEarlyMs, left_ms / 10));
}

Deadline RoomDeadlineOf(const grpc::ServerContextBase& call) {
  if (call.deadline() == std::chrono::system_clock::time_point::max()) return RoomDeadline();
  return WriteDeadlineOf(call);
}

}  // namespace tidepool::daemon
