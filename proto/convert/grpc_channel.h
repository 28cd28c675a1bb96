// Makes a gRPC channel to a daemon, with the metadata of each call. Common to the SDK, kvctl and
// daemons among themselves.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <string>
#include <string_view>

#include "proto/base/channel_security.h"
#include "proto/base/clock.h"
#include "proto/base/result.h"

namespace tidepool::convert {

// A value of 1 MiB (the most that a Data call carries) in a batch, or a map of 10^6 partitions,
// fits.
inline constexpr int kMessageBytesMax = 64 << 20;

// Returns true for 127.0.0.0/8, [::1] and "localhost", with or without a port.
bool IsLoopback(std::string_view address);

// Connects at the first call. Ignores http_proxy, which many sites set and which would be handed
// the token. A lost connection is tried again after 0.1 to 1 s instead of gRPC's 1 to 120 s.
// Errors: kFailedPrecondition (the address leaves this machine, there is no TLS, and `insecure` is
// not given: the token is never sent over a plain connection), kInvalidArgument (not host:port).
Result<std::shared_ptr<grpc::Channel>> MakeChannel(const std::string& address,
                                                   const ChannelSecurity& security);

// Sets the deadline and the metadata header "authorization: Bearer <token>".
void PrepareCall(grpc::ClientContext* context, Deadline deadline, const std::string& token);

}  // namespace tidepool::convert
