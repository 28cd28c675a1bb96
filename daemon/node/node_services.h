// Services of a node: its gRPC services behind their gates, and the listener of metrics and of the
// status page.
//
//   daemon/node/node -> [node_services] -> services/*, status_page/*, routing/request_router
//
// Invariants:
//   1. Each service outlives the host that calls it, and the router outlives each service.
//   2. Between Start and Stop the NodeState names the router, and the address that others call.
//   3. A call without the right token is refused, also before the node has a token.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "daemon/control/network_interface.h"
#include "daemon/control/node_state.h"
#include "daemon/moving/copy_keeper.h"
#include "daemon/moving/range_splitter.h"
#include "daemon/routing/request_router.h"
#include "daemon/services/admin_service.h"
#include "daemon/services/auth.h"
#include "daemon/services/bulk_service.h"
#include "daemon/services/cluster_service.h"
#include "daemon/services/data_service.h"
#include "daemon/services/moves_service.h"
#include "daemon/services/namespaces_service.h"
#include "daemon/services/service_host.h"
#include "daemon/services/snapshots_service.h"
#include "daemon/services/staging_service.h"
#include "daemon/status_page/listener.h"
#include "daemon/status_page/pages.h"
#include "proto/cluster_file/tls_identity.h"

namespace tidepool::daemon {

struct NodeServicesOptions {
  NetworkInterface interface;
  std::uint32_t port = 0;         // 0: former_port if it is free, or any free port.
  std::uint32_t former_port = 0;  // 0: none.
  const cluster_file::TlsIdentity* tls = nullptr;  // Null: without TLS. Used during Start only.
  // With etcd the map says which nodes are down, and the coordinator's silence is no sign.
  bool by_election = false;
};

// Start and Stop from one thread; after Stop, Start may follow once more, with another TLS
// identity.
class NodeServices {
 public:
  // `state` must outlive the object.
  explicit NodeServices(NodeState* state);
  NodeServices(const NodeServices&) = delete;
  NodeServices& operator=(const NodeServices&) = delete;

  // Starts all services. They answer kUnavailable until the node has joined. `state->cores` must be
  // set. Errors: those of ServiceHost::Start; those of Listener::Start if --metrics-port names a
  // port.
  Status Start(const NodeServicesOptions& options);
  // Closes the listener of metrics and of the status page.
  void StopListener() { listener_.reset(); }
  // Ends the jobs of staging.
  void StopStaging();
  // Closes the port at the deadline at the latest. Without a host it does nothing.
  void StopHost(Deadline deadline);
  // Stops all at once.
  void Stop();

  // Starts and stops the splitter of ranges. Errors: kResourceExhausted.
  Status StartSplitter() { return splitter_.Start(); }
  void StopSplitter() { splitter_.Stop(); }
  // Starts and stops the keeper of copies. Errors: kResourceExhausted.
  Status StartKeeper() { return keeper_.Start(); }
  void StopKeeper() { keeper_.Stop(); }

  Authenticator& authenticator() { return authenticator_; }
  AdminService& admin() { return admin_service_; }
  // Between Start and Stop.
  ServiceHost& host() { return *host_; }

 private:
  RouterContext MakeRouterContext(bool by_election);
  Status StartListener(const NodeServicesOptions& options);
  Status StartHost(const NodeServicesOptions& options);

  NodeState& state_;
  Authenticator authenticator_;
  std::unique_ptr<RequestRouter> router_;
  ClusterService cluster_service_;
  NamespacesService namespaces_service_;
  MovesService moves_service_;
  AdminService admin_service_;
  std::unique_ptr<DataService> data_service_;
  std::unique_ptr<BulkService> bulk_service_;
  std::unique_ptr<StagingService> staging_service_;
  std::unique_ptr<SnapshotsService> snapshots_service_;
  RangeSplitter splitter_;
  CopyKeeper keeper_;
  std::unique_ptr<ServiceHost> host_;
  Pages pages_;
  std::unique_ptr<Listener> listener_;  // Null: --metrics-port off.
};

}  // namespace tidepool::daemon
