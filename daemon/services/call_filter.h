// Refuses calls without the job token when their headers arrive, if there are too many.
//
//   gRPC -> [services/call_filter] -> gates
//
// A gate also refuses such calls, with a clearer text. But a gate sees a call only after its whole
// message has arrived and a thread is free, and gRPC 1.51 keeps waiting calls without a bound.
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

// Thread-safe. Admits every call with the token. Of other calls admits 64 at once and 32 a second:
// health checks, logins and wrong tokens, which the gate answers clearly.
class CallFilter {
 public:
  explicit CallFilter(const Authenticator* authenticator) : authenticator_(*authenticator) {}

  // Sets the guard to notify of floods and of calls with the token. Null: none.
  void set_guard(ConnectionGuard* guard);

  // Returns true if the call may continue. `authorization`: the header's value, empty if there is
  // not exactly one. `is_ours`: its service has a gate.
  bool Admit(std::string_view authorization, bool is_ours);

 private:
  bool TakeTurn();

  const Authenticator& authenticator_;
  std::atomic<ConnectionGuard*> guard_{nullptr};
  std::mutex mutex_;  // Guards the rest.
  std::uint64_t turns_ = 0;
  std::uint64_t refilled_ns_ = 0;
};

// Returns server credentials whose calls go through `filter`, which must outlive the server. Uses
// TLS unless `tls` is null; reads it during this call only.
std::shared_ptr<grpc::ServerCredentials> FilteredCredentials(const cluster_file::TlsIdentity* tls,
                                                             CallFilter* filter);

}  // namespace tidepool::daemon
