// Refuses calls without the job token as soon as their headers are there, once they are a flood.
//
//   gRPC -> [services/call_filter] -> gates
//
// A gate refuses such a call, too, with more to say; but a gate sees a call only when its whole
// message has arrived and a thread is free, and gRPC 1.51 keeps calls that wait for this without a
// bound.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "daemon/services/auth.h"
#include "proto/cluster_file/tls_identity.h"

namespace tidepool::daemon {

class ConnectionGuard;

// Thread-safe. Lets through each call with the token, and of the others 64 at once and 32 a second:
// health checks, logins, and wrong tokens, for which the gate has the clear words.
class CallFilter {
 public:
  explicit CallFilter(const Authenticator* authenticator) : authenticator_(*authenticator) {}

  // Tells the guard of floods, and of calls with the token, from now on. Null: no more.
  void set_guard(ConnectionGuard* guard);

  // True: the call may go on. `authorization`: its header's value, empty if there is not one.
  // `is_ours`: of a service with a gate.
  bool Admit(std::string_view authorization, bool is_ours);

 private:
  bool TakeTurn();

  const Authenticator& authenticator_;
  std::atomic<ConnectionGuard*> guard_{nullptr};
  std::mutex mutex_;  // Guards the rest.
  std::uint64_t turns_ = 0;
  std::uint64_t refilled_ns_ = 0;
};

// Credentials of a server whose calls go through `filter`, which must outlive the server. By TLS
// unless `tls` is null; it is used during this call.
std::shared_ptr<grpc::ServerCredentials> FilteredCredentials(const cluster_file::TlsIdentity* tls,
                                                             CallFilter* filter);

}  // namespace tidepool::daemon
