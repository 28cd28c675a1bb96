#include "client/link/node_session.h"

#include <algorithm>

#include "client/engine/engine.h"
#include "proto/base/check.h"
#include "proto/transport/node_transport.h"

namespace tidepool::internal {
namespace {

constexpr std::uint64_t kNsPerMs = 1'000'000;
// The daemon forgets after kSessionUnconnectedSeconds; a quarter of that is the margin for a slow
// machine.
constexpr std::uint64_t kIdleNs = limits::kSessionUnconnectedSeconds * 1'000 * kNsPerMs * 3 / 4;
// Time between attempts to attach: the least for a daemon that is starting, the greatest for a
// daemon that stays away.
constexpr std::uint64_t kBackoffMinNs = 10 * kNsPerMs;
constexpr std::uint64_t kBackoffMaxNs = 500 * kNsPerMs;

}  // namespace

std::string NodeSession::Describe() const {
  return "node " + std::to_string(node_.value()) + " (" + host_ + ", " + control_address_ + ")";
}

CoreLink& NodeSession::Link(CoreId core) {
  if (links_.size() <= core.value()) links_.resize(core.value() + 1u);
  std::unique_ptr<CoreLink>& link = links_[core.value()];
  if (link == nullptr) link = std::make_unique<CoreLink>(engine_, *this, core);
  return *link;
}

bool NodeSession::HasWork() const {
  return std::any_of(links_.begin(), links_.end(), [](const auto& link) {
    return link != nullptr && (link->HasWork() || link->HasOutstanding());
  });
}

void NodeSession::OnMap(const placement::Node& node) {
  uuid_ = node.uuid;
  host_ = node.host;
  control_address_ = node.control_address;
  const bool down = node.state != placement::NodeState::kUp;
  if (down && !node_down_) {
    node_down_ = true;
    OnLost(Status(StatusCode::kUnavailable, Describe() + " is down"));
    attach_wanted = false;
    for (const auto& link : links_) {
      if (link != nullptr) link->EndSent(Status(StatusCode::kUnavailable, Describe() + " is down"));
    }
  }
  if (node_down_ && !down) attach_not_before_ns = backoff_ns_ = 0;
  node_down_ = down;
  // A restarted daemon knows nothing of the session, and its old connection may never say that it
  // is dead.
  if (attached_ && map_incarnation_ != 0 && node.incarnation != map_incarnation_) {
    OnLost(Status(StatusCode::kUnavailable, Describe() + " was restarted"));
  }
  map_incarnation_ = node.incarnation;
}

bool NodeSession::ReadyToSend(std::uint64_t now_ns) {
  if (!attached_) return false;
  if (now_ns < last_sent_ns_ + kIdleNs) return true;
  const bool outstanding = std::any_of(links_.begin(), links_.end(), [](const auto& link) {
    return link != nullptr && link->HasOutstanding();
  });
  if (outstanding) return true;
  OnLost(Status(StatusCode::kUnavailable, "the session was idle"));
  return false;
}

void NodeSession::OnLost(const Status& why) {
  last_error_ = why;
  attached_ = false;
  for (const auto& link : links_) {
    if (link != nullptr) link->Disconnect();
  }
  if (HasWork()) engine_.WantAttach(this);
}

AttachRequest NodeSession::MakeAttachRequest(const std::string& worker_address,
                                             const EngineOptions& options, std::uint64_t tag) {
  tag_ = tag;
  return {transport::TagAddress(worker_address, tag), id_, incarnation_, options.client_name,
          options.connect.uncounted};
}

void NodeSession::OnAttached(const AttachReply& reply, std::uint64_t now_ns) {
  // Also after an attach of an idle session that was not marked as lost.
  for (const auto& link : links_) {
    if (link != nullptr) link->Disconnect();
  }
  const bool resumed = reply.resumed && reply.session == id_;
  if (reply.incarnation != incarnation_) {
    arenas = nullptr;
    remote = nullptr;
  }
  memory_address_ = reply.memory_address;
  id_ = reply.session;
  connection_ = reply.connection;
  incarnation_ = reply.incarnation;
  last_sent_ns_ = now_ns;
  // Slow down until a frame comes: an attach may succeed again and again without a frame.
  RaiseBackoff(now_ns);
  attached_ = true;
  if (!resumed) engine_.read_counts().OnNewSession(*this);
  for (std::size_t core = 0; core < reply.worker_addresses.size(); ++core) {
    Link(CoreId(static_cast<std::uint16_t>(core)))
        .OnAttached(transport::TagAddress(reply.worker_addresses[core], tag_),
                    reply.credit_operations, reply.credit_bytes, resumed, now_ns);
  }
  for (std::size_t core = reply.worker_addresses.size(); core < links_.size(); ++core) {
    if (links_[core] != nullptr) links_[core]->OnCoreGone();
  }
}

void NodeSession::OnAttachFailed(const Status& why, std::uint64_t now_ns) {
  last_error_ = why;
  RaiseBackoff(now_ns);
}

void NodeSession::RaiseBackoff(std::uint64_t now_ns) {
  backoff_ns_ = std::clamp(backoff_ns_ * 2, kBackoffMinNs, kBackoffMaxNs);
  attach_not_before_ns = now_ns + backoff_ns_;
}

void NodeSession::Detach() {
  for (const auto& link : links_) {
    if (link != nullptr) link->SendDetach();
  }
}

}  // namespace tidepool::internal
