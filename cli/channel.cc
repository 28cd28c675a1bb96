#include "cli/channel.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "proto/base/limits.h"
#include "proto/base/thread.h"
#include "proto/cluster_file/host_name.h"
#include "proto/cluster_file/tls_identity.h"
#include "proto/convert/login.h"
#include "proto/convert/port_state.h"

namespace tidepool::cli {
namespace {

// For calls without a deadline of their own; a StallGuard ends them.
constexpr std::uint64_t kStreamTimeoutMs = 365ull * 24 * 3600 * 1000;
// Time for a single node. A stopped node accepts connections (its kernel does) and stays silent,
// and the file's other nodes must have their turn within the deadline.
constexpr std::uint64_t kConnectMsMin = 300;
constexpr std::uint64_t kAskPortMs = 500;
// For daemons that are being started again.
constexpr std::uint64_t kGoneMs = 2'000;

// True if the file stands and each daemon's machine says that no process listens at its port.
// Daemons that end in good order remove their connection file.
bool HaveVanished(const cluster_file::Found& found) {
  const auto standing = cluster_file::Read(found.path);
  if (!standing.ok() || standing->cluster_uuid != found.file.cluster_uuid) return false;
  return std::all_of(standing->nodes.begin(), standing->nodes.end(), [](const auto& node) {
    return convert::AskPort(node.control_address, kAskPortMs) == convert::PortState::kClosed;
  });
}

Status Vanished(const cluster_file::Found& found) {
  std::string tried;
  for (const auto& node : found.file.nodes) {
    tried += (tried.empty() ? "" : ", ") + node.host + " " + node.control_address;
  }
  return Status(StatusCode::kUnavailable,
                "the daemons of the cluster in " + found.path +
                    " have vanished: no process listens any more (tried " + tried +
                    "), and none has taken leave, as after SIGKILL or a crash of the machine; data "
                    "that was in their memory alone is lost",
                "start anew: kvctl start --local; their logs may say more");
}

}  // namespace

Status AsUnreachable(const Status& failure) {
  if (failure.code() != StatusCode::kNotFound) return failure;
  return Status(StatusCode::kUnavailable, std::string(failure.what()),
                "start one: kvctl start --local; or name its connection file with --cluster");
}

Status AsOtherCluster(const Status& failure) {
  if (failure.code() != StatusCode::kUnauthenticated) return failure;
  return Status(failure.code(), std::string(failure.what()),
                "the connection file is of another cluster, or its token of an earlier one: name "
                "the right file with --cluster");
}

StallGuard::StallGuard(grpc::ClientContext* context, std::uint64_t timeout_ms)
    : context_(context), timeout_ms_(timeout_ms) {
  begun_ = StartThread("a call to a daemon", &thread_, [this] { Watch(); });
  if (!begun_.ok()) context_->TryCancel();
}

StallGuard::~StallGuard() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void StallGuard::Progress() {
  // The watcher looks at the count once per timeout; waking it for each message would cost more
  // than the message.
  const std::lock_guard lock(mutex_);
  ++progress_;
}

void StallGuard::SetWaiting(bool waiting) {
  const std::lock_guard lock(mutex_);
  waiting_ = waiting;
  ++progress_;
}

bool StallGuard::stalled() const {
  const std::lock_guard lock(mutex_);
  return stalled_;
}

void StallGuard::Watch() {
  std::unique_lock lock(mutex_);
  while (!ended_) {
    const std::uint64_t seen = progress_;
    if (wake_.wait_for(lock, std::chrono::milliseconds(timeout_ms_), [&] { return ended_; })) {
      return;
    }
    if (waiting_ && progress_ == seen) {
      stalled_ = true;
      context_->TryCancel();
      return;
    }
  }
}

Channel::Channel(ChannelOptions options, cluster_file::Found found, std::string token,
                 ChannelSecurity security)
    : options_(std::move(options)),
      found_(std::move(found)),
      token_(std::move(token)),
      security_(std::move(security)) {}

Status Channel::Open(const std::string& address, std::uint64_t timeout_ms) {
  auto channel = convert::MakeChannel(address, security_);
  if (!channel.ok()) return channel.status();
  const auto deadline = std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms);
  if (!(*channel)->WaitForConnected(deadline)) {
    return Status(StatusCode::kUnavailable, address + " does not answer");
  }
  address_ = address;
  channel_ = *std::move(channel);
  return OkStatus();
}

Result<std::unique_ptr<Channel>> Channel::Connect(const ChannelOptions& options) {
  auto found = cluster_file::Find(options.cluster);
  if (!found.ok()) return AsUnreachable(found.status());
  auto security = cluster_file::SecurityOf(found->file, options.insecure);
  if (!security.ok()) return security.status();
  auto token = convert::ObtainToken(found->file, *security, Deadline::AfterMs(options.timeout_ms));
  if (token.code() == StatusCode::kUnavailable && HaveVanished(*found)) return Vanished(*found);
  if (!token.ok()) return token.status();
  std::unique_ptr<Channel> channel(
      new Channel(options, *std::move(found), *std::move(token), *std::move(security)));

  std::vector<cluster_file::FileNode> nodes = channel->found_.file.nodes;
  const std::string here = cluster_file::HostName();
  std::stable_partition(nodes.begin(), nodes.end(),
                        [&](const cluster_file::FileNode& node) { return node.host == here; });
  // Daemons that are gone are hardly back within the user's patience. Ports of other machines are
  // left for the end: a machine that is down takes its time to say nothing.
  const bool are_here =
      std::all_of(nodes.begin(), nodes.end(),
                  [&](const cluster_file::FileNode& node) { return node.host == here; });
  const bool are_gone = are_here && HaveVanished(channel->found_);
  const Deadline deadline =
      Deadline::AfterMs(are_gone ? std::min(options.timeout_ms, kGoneMs) : options.timeout_ms);
  std::string tried;
  for (std::size_t i = 0; i < nodes.size() && !deadline.Passed(); ++i) {
    const std::uint64_t share_ms = deadline.LeftMs() / (nodes.size() - i);
    const Status opened =
        channel->Open(nodes[i].control_address, std::max(share_ms, kConnectMsMin));
    if (opened.ok()) return channel;
    // Other nodes have the same trouble with addresses and TLS.
    if (opened.code() != StatusCode::kUnavailable) return opened;
    tried += (tried.empty() ? "" : ", ") + nodes[i].control_address;
  }
  if (HaveVanished(channel->found_)) return Vanished(channel->found_);
  return Status(
      StatusCode::kUnavailable,
      "no node of the cluster in " + channel->found_.path + " answers (tried " + tried + ")",
      "look at the logs of its daemons, and whether this host reaches them; if all of them have "
      "ended, begin anew with: kvctl start --local");
}

Result<std::unique_ptr<Channel>> Channel::ConnectTo(const std::string& address) const {
  return ConnectTo(address, Deadline::AfterMs(options_.timeout_ms));
}

Result<std::unique_ptr<Channel>> Channel::ConnectTo(const std::string& address,
                                                    Deadline deadline) const {
  std::unique_ptr<Channel> channel(new Channel(options_, found_, token_, security_));
  const Status opened = channel->Open(address, deadline.LeftMs());
  if (!opened.ok()) return opened;
  return channel;
}

std::uint64_t Channel::TimeoutMs(std::uint64_t bytes) const {
  if (options_.timeout_given) return options_.timeout_ms;
  return options_.timeout_ms + bytes * 1000 / limits::kTimeoutBytesPerSecond;
}

void Channel::PrepareStream(grpc::ClientContext* context) const {
  convert::PrepareCall(context, Deadline::AfterMs(kStreamTimeoutMs), token_);
}

Status Channel::StreamEnd(const grpc::Status& status, const StallGuard& guard) const {
  if (!status.ok() && !guard.begun().ok()) return guard.begun();
  if (!status.ok() && guard.stalled()) {
    return Status(StatusCode::kDeadlineExceeded,
                  address_ + " made no progress for " + std::to_string(options_.timeout_ms) + " ms",
                  "raise --timeout, or see: kvctl status");
  }
  return FromGrpc(status);
}

Status Channel::FromGrpc(const grpc::Status& status) const {
  return AsOtherCluster(convert::FromGrpc(status, address_));
}

}  // namespace tidepool::cli
