#include "daemon/node/node_services.h"

#include <utility>
#include <vector>

#include "proto/base/check.h"
#include "proto/base/log.h"
#include "proto/machine/page_address.h"

namespace tidepool::daemon {

NodeServices::NodeServices(NodeState* state)
    : state_(*state),
      cluster_service_(state),
      namespaces_service_(state),
      moves_service_(state),
      admin_service_(state),
      splitter_(state),
      keeper_(state),
      pages_(state) {}

RouterContext NodeServices::MakeRouterContext(bool by_election) {
  RouterContext router;
  router.cores = state_.cores;
  router.map = [this] { return state_.map.Get(); };
  router.self = [this] { return state_.self(); };
  router.channel = [this](const placement::Node& node) {
    return state_.peers.Get(node.control_address);
  };
  router.authorize = [this](grpc::ClientContext& call) { state_.peers.Authorize(call); };
  // With etcd there may be a new coordinator, and the node itself serves as long as etcd renews its
  // lease.
  router.check_answers = [this, by_election](NodeId node) {
    return by_election ? OkStatus() : state_.CheckAnswers(node);
  };
  router.refresh_map = [this](Epoch known, Deadline deadline) {
    if (Member* member = state_.member.load(); member != nullptr) member->Refresh(known, deadline);
  };
  router.sync_map = [this](Deadline deadline) {
    if (Member* member = state_.member.load(); member != nullptr) member->Sync(deadline);
  };
  return router;
}

Status NodeServices::Start(const NodeServicesOptions& options) {
  TP_CHECK(state_.cores != nullptr && host_ == nullptr && listener_ == nullptr);
  router_ = std::make_unique<RequestRouter>(MakeRouterContext(options.by_election));
  state_.router = router_.get();
  state_.splitter = &splitter_;
  data_service_ = std::make_unique<DataService>(router_.get());
  bulk_service_ = std::make_unique<BulkService>(router_.get());
  staging_service_ = std::make_unique<StagingService>(router_.get(), &state_.saved);
  snapshots_service_ = std::make_unique<SnapshotsService>(router_.get());
  TP_RETURN_IF_ERROR(StartListener(options));
  return StartHost(options);
}

// Comes before the host: services report the address of the page.
Status NodeServices::StartListener(const NodeServicesOptions& options) {
  state_.metrics_url.clear();
  const bool is_remote = state_.options.metrics_remote;
  const std::string& port = state_.options.metrics_port;
  if (port == "off") return OkStatus();
  ListenerOptions listener;
  listener.address = is_remote ? options.interface.address : "127.0.0.1";
  listener.port = port == "auto" ? 0 : static_cast<std::uint32_t>(std::stoul(port));
  if (is_remote) {
    listener.tls = options.tls;
    listener.access = Access([this](std::string_view token) {
      return authenticator_.IsRight("Bearer " + std::string(token));
    });
  }
  auto started = Listener::Start(std::move(listener),
                                 [this](std::string_view path) { return pages_.Answer(path); });
  if (!started.ok()) {
    // The user has asked for no port: the node does without.
    if (port != "auto") return started.status();
    log::Warn("no metrics and no status page: " + started.status().ToString());
    return OkStatus();
  }
  listener_ = *std::move(started);
  state_.metrics_url = listener_->url();
  const std::string& host = state_.host;
  log::Info("metrics and status page at " +
            machine::PageText(listener_->url(), host, machine::LoginHostOf(host, host)));
  return OkStatus();
}

Status NodeServices::StartHost(const NodeServicesOptions& options) {
  GatedServices services;
  services.cluster = &cluster_service_;
  services.namespaces = &namespaces_service_;
  services.admin = &admin_service_;
  services.data = data_service_.get();
  services.bulk = bulk_service_.get();
  std::vector<std::unique_ptr<grpc::Service>> more;
  more.push_back(MakeStagingGate(&authenticator_, staging_service_.get()));
  more.push_back(MakeSnapshotsGate(&authenticator_, snapshots_service_.get()));
  more.push_back(MakeMovesGate(&authenticator_, &moves_service_));
  std::uint32_t port = options.port;
  if (port == 0 && options.former_port != 0 &&
      CheckPort(options.interface.address, options.former_port).ok()) {
    port = options.former_port;  // Looked at behind the listener, which may have taken it.
  }
  auto host = ServiceHost::Start(options.interface, port, options.tls, state_.options.memory_bytes,
                                 &authenticator_, services, std::move(more));
  if (!host.ok()) return host.status();
  host_ = *std::move(host);
  state_.control_address = host_->address();
  return OkStatus();
}

void NodeServices::StopStaging() {
  if (staging_service_ != nullptr) staging_service_->Stop();
}

void NodeServices::StopHost(Deadline deadline) {
  if (host_ != nullptr) host_->Stop(deadline);
}

void NodeServices::Stop() {
  listener_.reset();
  host_.reset();
}

}  // namespace tidepool::daemon
