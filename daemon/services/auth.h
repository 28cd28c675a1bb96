// Whether a gRPC call carries the job token.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_interceptor.h>

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "proto/base/limited_log.h"

namespace tidepool::daemon {

// Thread-safe. Refuses everything until the token is set.
class Authenticator {
 public:
  // Once, before the cluster is published.
  void SetToken(std::string token);
  // OK, UNAUTHENTICATED, or UNAVAILABLE (the node has no token yet).
  grpc::Status Check(const grpc::ServerContextBase& call) const;
  // Of a value of the header "authorization".
  bool IsRight(std::string_view header) const;

 private:
  bool HasToken() const;

  mutable std::mutex mutex_;
  std::string expected_;  // "Bearer <token>", empty before SetToken. Guarded by mutex_.
  mutable log::Limited refused_;
};

// gRPC brings its own reflection service, which knows no tokens. This empties what such a call
// sends before the service sees it and ends the call with UNAUTHENTICATED; health is left open.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeReflectionGuard(
    const Authenticator* authenticator);

}  // namespace tidepool::daemon
