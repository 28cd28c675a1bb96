#include "daemon/routing/call_deadline.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string>

#include "proto/base/limits.h"

namespace tidepool::daemon {
namespace {

constexpr std::uint64_t kEarlyMs = 200;
constexpr const char* kWorkMs = "tidepool-work-ms";

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

void SetWorkDeadline(grpc::ClientContext* call, Deadline deadline) {
  call->AddMetadata(kWorkMs, std::to_string(deadline.LeftMs()));
}

Deadline WorkDeadlineOf(const grpc::ServerContextBase& call) {
  const auto found = call.client_metadata().find(kWorkMs);
  if (found == call.client_metadata().end()) return WriteDeadlineOf(call);
  std::uint64_t work_ms = 0;
  const char* const end = found->second.data() + found->second.size();
  if (std::from_chars(found->second.data(), end, work_ms).ptr != end) return WriteDeadlineOf(call);
  return Deadline(std::min(DeadlineOf(call).at_ns(), Deadline::AfterMs(work_ms).at_ns()));
}

Deadline RoomDeadlineOf(const grpc::ServerContextBase& call) {
  if (call.deadline() == std::chrono::system_clock::time_point::max()) return RoomDeadline();
  return WriteDeadlineOf(call);
}

}  // namespace tidepool::daemon
