// kvctl's gRPC connection to a node of the cluster, which forwards requests of other nodes.
//
// a verb's handler -> [Channel] -> gRPC => any daemon -> the owner
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "proto/base/clock.h"
#include "proto/base/result.h"
#include "proto/cluster_file/find.h"
#include "proto/convert/grpc_channel.h"
#include "proto/convert/grpc_status.h"

namespace tidepool::cli {

struct ChannelOptions {
  std::string cluster;  // --cluster, or empty.
  std::uint64_t timeout_ms = 10'000;
  bool timeout_given = false;  // Then large values get no more time.
  bool insecure = false;
};

// Turns "not found", the status of an absent key, into "unreachable" for an absent cluster. Other
// failures of looking for the connection file stay.
Status AsUnreachable(const Status& failure);
// Changes the text for a person: a daemon that does not know the token tells programs to send
// another token, but a person at kvctl named the wrong file.
Status AsOtherCluster(const Status& failure);

// Cancels a call when its peer makes no progress: streams of any length have no deadline as a
// whole, but nothing may wait for ever. Thread-safe.
class StallGuard {
 public:
  // Waiting from the start. `context` outlives the guard. Without a thread for the guard the call
  // is cancelled: see begun().
  StallGuard(grpc::ClientContext* context, std::uint64_t timeout_ms);
  ~StallGuard();
  StallGuard(const StallGuard&) = delete;
  StallGuard& operator=(const StallGuard&) = delete;

  // The peer did something, or the time begins anew for another reason.
  void Progress();
  // Notes if the peer has work to do now. A peer is not late while a pager, a slow pipe or a person
  // on this side causes the delay.
  void SetWaiting(bool waiting);
  // True if this has cancelled the call.
  bool stalled() const;
  // kResourceExhausted if no thread could be started. Channel::StreamEnd returns it.
  const Status& begun() const { return begun_; }

 private:
  void Watch();

  grpc::ClientContext* const context_;
  const std::uint64_t timeout_ms_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::uint64_t progress_ = 0;
  bool waiting_ = true;
  bool ended_ = false;
  bool stalled_ = false;
  Status begun_;
  std::thread thread_;
};

// Once connected it may be used by any number of threads.
class Channel {
 public:
  // Finds the connection file and connects to the first node that answers. Nodes of this machine
  // come first, because they see the caller's folders. Errors: kUnavailable (no connection file, or
  // no node answers), kPermissionDenied, kUnauthenticated (the file or its token), kInvalidArgument
  // (a damaged file), kFailedPrecondition (the token would leave the machine without TLS).
  static Result<std::unique_ptr<Channel>> Connect(const ChannelOptions& options);
  // Connects to a given address, for requests to each node.
  Result<std::unique_ptr<Channel>> ConnectTo(const std::string& address) const;
  Result<std::unique_ptr<Channel>> ConnectTo(const std::string& address, Deadline deadline) const;

  // A unary call: Call<v1::Data>(&v1::Data::Stub::Get, request, &response). `bytes`: bytes that it
  // moves beside its frame, for the deadline. Errors: the errors of the service, kUnavailable,
  // kDeadlineExceeded.
  template <typename Service, typename Request, typename Response>
  Status Call(grpc::Status (Service::Stub::*method)(grpc::ClientContext*, const Request&,
                                                    Response*),
              const Request& request, Response* response, std::uint64_t bytes = 0) {
    return CallBy<Service>(method, request, response, Deadline::AfterMs(TimeoutMs(bytes)));
  }
  // A unary call with the caller's deadline.
  template <typename Service, typename Request, typename Response>
  Status CallBy(grpc::Status (Service::Stub::*method)(grpc::ClientContext*, const Request&,
                                                      Response*),
                const Request& request, Response* response, Deadline deadline) {
    grpc::ClientContext context;
    convert::PrepareCall(&context, deadline, token_);
    const auto stub = Service::NewStub(channel_);
    return FromGrpc(((*stub).*method)(&context, request, response));
  }

  // For streams, together with a StallGuard of stall_ms().
  void PrepareStream(grpc::ClientContext* context) const;
  std::uint64_t stall_ms() const { return options_.timeout_ms; }
  // How a stream ended, seen through its guard.
  Status StreamEnd(const grpc::Status& status, const StallGuard& guard) const;

  Status FromGrpc(const grpc::Status& status) const;
  const std::shared_ptr<grpc::Channel>& grpc_channel() const { return channel_; }
  const cluster_file::Found& found() const { return found_; }
  const std::string& address() const { return address_; }

 private:
  Channel(ChannelOptions options, cluster_file::Found found, std::string token,
          ChannelSecurity security);
  Status Open(const std::string& address, std::uint64_t timeout_ms);
  std::uint64_t TimeoutMs(std::uint64_t bytes) const;

  ChannelOptions options_;
  cluster_file::Found found_;
  std::string token_;
  ChannelSecurity security_;
  std::string address_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace tidepool::cli
