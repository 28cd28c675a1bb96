#include "cli/invocation.h"

#include "proto/base/limits.h"
#include "proto/cluster_file/find.h"

namespace tidepool::cli {

Result<std::uint64_t> Invocation::TimeoutMs(std::uint64_t bytes) const {
  const std::uint64_t for_bytes = bytes * 1000 / limits::kTimeoutBytesPerSecond;
  Result<std::uint64_t> timeout_ms =
      args.DurationMs("--timeout", limits::kCallTimeoutMs + for_bytes);
  if (timeout_ms.ok() && *timeout_ms == 0) {
    return Status(StatusCode::kInvalidArgument, "--timeout: 0 would leave no time for an answer");
  }
  return timeout_ms;
}

bool Invocation::insecure() const {
  return args.Has("--insecure") || cluster_file::InsecureAllowed();
}

Result<Channel*> Invocation::Connect() {
  if (channel_ == nullptr) {
    const Result<std::uint64_t> timeout_ms = TimeoutMs();
    if (!timeout_ms.ok()) return timeout_ms.status();
    Result<std::unique_ptr<Channel>> channel =
        Channel::Connect({.cluster = args.Text("--cluster"),
                          .timeout_ms = *timeout_ms,
                          .timeout_given = args.Has("--timeout"),
                          .insecure = insecure()});
    if (!channel.ok()) return channel.status();
    channel_ = *std::move(channel);
  }
  return channel_.get();
}

Result<Channel*> Invocation::Reconnect() {
  channel_.reset();
  return Connect();
}

}  // namespace tidepool::cli
