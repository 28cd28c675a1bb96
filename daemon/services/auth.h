// Whether a gRPC call carries the job token.
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

// Hears which connections have shown the job token. Thread-safe.
class TokenObserver {
 public:
  virtual ~TokenObserver() = default;
  // False: no connection is left that has not shown it, so OnToken need not be called.
  virtual bool has_strangers() const = 0;
  // `peer`: gRPC's name of the connection, "ipv4:10.0.0.7:4711".
  virtual void OnToken(const std::string& peer) = 0;
};

// Thread-safe. Refuses everything until the token is set.
class Authenticator {
 public:
  // Once, before the cluster is published.
  void SetToken(std::string token);
  // OK, UNAUTHENTICATED, or UNAVAILABLE (the node has no token yet).
  grpc::Status Check(const grpc::ServerContextBase& call) const;
  // From now on `observer` hears of each call with the token, until this is called with null, by
  // which time no call may be in progress.
  void Observe(TokenObserver* observer) { observer_ = observer; }
  // Of a value of the header "authorization".
  bool IsRight(std::string_view header) const;

 private:
  bool HasToken() const;

  mutable std::mutex mutex_;
  std::string expected_;  // "Bearer <token>", empty before SetToken. Guarded by mutex_.
  std::atomic<TokenObserver*> observer_{nullptr};
  mutable log::Limited refused_;
};

// gRPC brings its own reflection service, which knows no tokens. This empties what such a call
// sends before the service sees it and ends the call with UNAUTHENTICATED; health is left open.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeReflectionGuard(
    const Authenticator* authenticator);

}  // namespace tidepool::daemon
