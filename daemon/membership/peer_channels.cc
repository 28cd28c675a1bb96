#include "daemon/membership/peer_channels.h"

#include <grpcpp/create_channel.h>

#include <utility>

#include "proto/base/log.h"
#include "proto/convert/grpc_channel.h"

namespace tidepool::daemon {

void PeerChannels::SetSecurity(ChannelSecurity security) {
  const std::lock_guard lock(mutex_);
  security_ = std::move(security);
}

void PeerChannels::SetToken(std::string token) {
  const std::lock_guard lock(mutex_);
  token_ = std::move(token);
}

std::string PeerChannels::token() const {
  const std::lock_guard lock(mutex_);
  return token_;
}

Result<std::shared_ptr<grpc::Channel>> PeerChannels::Open(const std::string& address) {
  const std::lock_guard lock(mutex_);
  const auto found = channels_.find(address);
  if (found != channels_.end()) return found->second;
  auto made = convert::MakeChannel(address, security_);
  if (made.ok()) channels_.emplace(address, *made);
  return made;
}

std::shared_ptr<grpc::Channel> PeerChannels::Get(const std::string& address) {
  auto opened = Open(address);
  if (opened.ok()) return *std::move(opened);
  log::Error("no channel to " + address + ": " + opened.status().ToString());
  return grpc::CreateChannel(address, nullptr);  // Without credentials every call on it fails.
}

void PeerChannels::Authorize(grpc::ClientContext& call) const {
  const std::lock_guard lock(mutex_);
  call.AddMetadata("authorization", "Bearer " + token_);
}

void PeerChannels::Prepare(grpc::ClientContext* call, Deadline deadline) const {
  const std::lock_guard lock(mutex_);
  convert::PrepareCall(call, deadline, token_);
}

}  // namespace tidepool::daemon
