// gRPC channels to the other nodes, made at first use and kept, and the job token for calls on
// them.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "proto/base/channel_security.h"
#include "proto/base/clock.h"
#include "proto/base/result.h"

namespace tidepool::daemon {

// Thread-safe. A channel to an address that no node has any more stays until the process ends: a
// cluster has as many addresses as its nodes had starts.
class PeerChannels {
 public:
  // Both before the first call.
  void SetSecurity(ChannelSecurity security);
  void SetToken(std::string token);
  std::string token() const;  // Empty until it is set.

  // Errors: as convert::MakeChannel.
  Result<std::shared_ptr<grpc::Channel>> Open(const std::string& address);
  // The same for callers that can only fail at their call: then each call ends with UNAVAILABLE.
  std::shared_ptr<grpc::Channel> Get(const std::string& address);

  void Authorize(grpc::ClientContext& call) const;
  void Prepare(grpc::ClientContext* call, Deadline deadline) const;

 private:
  mutable std::mutex mutex_;
  ChannelSecurity security_;
  std::string token_;
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels_;
};

}  // namespace tidepool::daemon
