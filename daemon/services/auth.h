// Checks that a gRPC call carries the job token.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_interceptor.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "proto/base/limited_log.h"

namespace tidepool::daemon {

// Observer of connections that have shown the job token. Thread-safe.
class TokenObserver {
 public:
  virtual ~TokenObserver() = default;
  // Returns false if every connection has shown the token, so OnToken need not be called.
  virtual bool has_strangers() const = 0;
  // `peer`: gRPC's name of the connection, "ipv4:10.0.0.7:4711".
  virtual void OnToken(const std::string& peer) = 0;
};

// Thread-safe. Refuses every call until the token is set.
class Authenticator {
 public:
  // Sets the token once, before the cluster is published.
  void SetToken(std::string token);
  // Returns OK, UNAUTHENTICATED, or UNAVAILABLE (the node has no token yet).
  grpc::Status Check(const grpc::ServerContextBase& call) const;
  // Calls `observer` for each call with the token from now on, until the next Observe. Pass null to
  // end; no call may then be in progress.
  void Observe(TokenObserver* observer) { observer_ = observer; }
  // Checks a value of the header "authorization".
  bool IsRight(std::string_view header) const;

 private:
  bool HasToken() const;

  mutable std::mutex mutex_;
  std::string expected_;  // "Bearer <token>", empty before SetToken. Guarded by mutex_.
  std::atomic<TokenObserver*> observer_{nullptr};
  mutable log::Limited refused_;
};

// Returns a guard for gRPC's reflection service, which does not check tokens. The guard empties the
// message of a call without the token and ends the call with UNAUTHENTICATED. Health stays open.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeReflectionGuard(
    const Authenticator* authenticator);

}  // namespace tidepool::daemon
