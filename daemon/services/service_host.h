// The node's gRPC endpoint: all services behind their gates, health, reflection.
//
//   daemon/node/node -> [services/service_host] -> services/*
#pragma once

#include <grpcpp/server.h>

#include <memory>
#include <string>
#include <vector>

#include "daemon/control/network_interface.h"
#include "daemon/services/call_filter.h"
#include "daemon/services/connection_guard.h"
#include "daemon/services/gates.h"
#include "proto/base/clock.h"
#include "proto/cluster_file/tls_identity.h"

namespace tidepool::daemon {

// Thread-safety: Start and Stop once each, from the same thread; the rest from any thread.
class ServiceHost {
 public:
  // Listens on `interface` and `port` (0: any free port). Health is NOT_SERVING until SetHealth.
  // Uses TLS only, unless `tls` is null; reads it during this call only. `authenticator` and
  // everything in `services` must outlive it; `more` are further gates. `memory_bytes`: memory of
  // the node, which bounds gRPC's part.
  // Errors: the errors of CheckPort, kUnavailable, kResourceExhausted (no descriptor, no thread).
  static Result<std::unique_ptr<ServiceHost>> Start(
      const NetworkInterface& interface, std::uint32_t port, const cluster_file::TlsIdentity* tls,
      std::uint64_t memory_bytes, Authenticator* authenticator, const GatedServices& services,
      std::vector<std::unique_ptr<grpc::Service>> more);
  ~ServiceHost();

  // host:port for other nodes.
  const std::string& address() const { return address_; }

  // Sets the node's health: its cluster has formed and it serves.
  void SetHealth(bool serving);
  // Sets the health service "tidepool.cluster.<uuid>" to SERVING. A starter can then check without
  // a token that an address belongs to that cluster.
  void ShowCluster(const std::string& cluster_uuid);

  // Refuses new calls; calls in progress may continue until the deadline.
  void Stop(Deadline deadline);

 private:
  explicit ServiceHost(Authenticator* authenticator)
      : authenticator_(*authenticator), filter_(authenticator) {}
  Status Listen(const std::string& address, std::uint32_t port,
                const cluster_file::TlsIdentity* tls, std::uint64_t memory_bytes);

  Authenticator& authenticator_;
  CallFilter filter_;
  std::string address_;
  std::vector<std::unique_ptr<grpc::Service>> gates_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<ConnectionGuard> guard_;
};

// Sends gRPC's own log lines to our log as debug. They are about failed connections, which the
// calls report too. Once per process.
void RouteGrpcLog();

}  // namespace tidepool::daemon
