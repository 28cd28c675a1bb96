#include "daemon/node/node.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "daemon/config/split_list.h"
#include "daemon/control/persist.h"
#include "daemon/control/recovery.h"
#include "daemon/membership/embedded_store.h"
#include "daemon/node/node_volume.h"
#include "daemon/ops/functions.h"
#include "daemon/services/node_status.h"
#include "daemon/status_page/summary.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"
#include "proto/cluster_file/disk_reserve.h"
#include "proto/cluster_file/file_io.h"
#include "proto/convert/grpc_channel.h"
#include "proto/convert/probe_cluster.h"
#include "proto/machine/page_address.h"
#include "proto/transport/node_transport.h"
#include "proto/transport/remote_memory.h"

namespace tidepool::daemon {
namespace {

constexpr std::uint64_t kLeaveMs = 2000;
constexpr std::uint64_t kCallsInProgressMs = 2000;
// Of a clean stop: a window's changes at the speed of a slow disk.
constexpr std::uint64_t kPersistMs = 20'000;

// What same-node connections may take: with rings of 256 KiB each way some 60 to 2,000 of them, and
// a quarter more, since the last quarter of it goes to smaller ones.
std::uint64_t RingBytesMax(const Options& options) {
  return std::clamp<std::uint64_t>(options.memory_bytes / 16, 32ull << 20, 1ull << 30);
}

// A folder name for "10.0.0.7:4410".
std::string FolderNameOf(std::string address) {
  for (char& c : address) {
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                          (c >= 'A' && c <= 'Z') || c == '.' || c == '-';
    if (!is_plain) c = '_';
  }
  return "join-" + address;
}

std::uint32_t PortOf(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos || address.size() - colon > 6) return 0;
  std::uint32_t port = 0;
  for (const char c : address.substr(colon + 1)) {
    if (c < '0' || c > '9') return 0;
    port = port * 10 + static_cast<std::uint32_t>(c - '0');
  }
  return port <= 65'535 ? port : 0;
}

}  // namespace

Node::Node(const LoadedOptions& loaded, StopSignal* stop)
    : loaded_(loaded),
      options_(loaded_.options),
      stop_(*stop),
      state_(loaded.options),
      environment_(cluster_file::ProcessEnvironment()) {}

Node::~Node() {
  stop_.SetHook({});
  // Who calls must be gone before what is called.
  listener_.reset();
  if (aggregator_ != nullptr) aggregator_->Stop();
  if (staging_service_ != nullptr) staging_service_->Stop();
  state_.moves.Stop();
  may_be_elected_ = false;
  if (member_ != nullptr) member_->Stop();
  coordinator_stop_.Request({});
  if (coordinator_thread_.joinable()) coordinator_thread_.join();
  if (session_ != nullptr) session_->End(Deadline::AfterMs(kLeaveMs));  // Of a start that failed.
  state_.map.Close();
  if (coordinator_ != nullptr) coordinator_->map().Close();
  if (host_ != nullptr) host_->Stop(Deadline::AfterMs(0));
}

Result<std::unique_ptr<Node>> Node::Start(const LoadedOptions& loaded, StopSignal* stop,
                                          const wire::AggregatorMaker& make_aggregator) {
  std::unique_ptr<Node> node(new Node(loaded, stop));
  node->aggregator_ = make_aggregator(node->MakeAggregatorOptions());
  const Status started = node->Run();
  // Where the folder outlives the daemon, and the start has not given it up.
  if (node->data_dir_given_ && node->identity_.has_value() &&
      access((node->identity_->folder() + "/identity.json").c_str(), F_OK) == 0) {
    cluster_file::RefillReserve(node->identity_->folder());
  }
  if (!started.ok()) return started;
  return node;
}

Status Node::Prepare() {
  TP_RETURN_IF_ERROR(OpenDevices());  // What they keep has a say in the next.
  TP_RETURN_IF_ERROR(Decide());
  TP_RETURN_IF_ERROR(StartNetwork());
  TP_RETURN_IF_ERROR(ReadBack());
  return StartServices();
}

Status Node::Run() {
  TP_RETURN_IF_ERROR(OpenIdentity());
  if (const Status prepared = Prepare(); !prepared.ok()) {
    identity_->Forget();
    // Folders that the start has made, unless there is more in them.
    if (!data_dir_given_ && rmdir(identity_->folder().c_str()) == 0) {
      rmdir(cluster_file::FolderOf(identity_->folder()).c_str());
    }
    return prepared;
  }
  if (part_.kind != Part::Kind::kJoin) {
    const Status begun = BeginCluster();
    if (begun == StatusCode::kUnavailable && by_election()) {
      return Status(
          begun.code(),
          "the election was lost before this node had begun: " + std::string(begun.what()),
          "start it again: it joins whom was elected then");
    }
    // Another starter was first, on a file system without locks. With etcd an election was before.
    if (begun != StatusCode::kAlreadyExists || by_election()) return begun;
    const auto own = tls_;
    TP_RETURN_IF_ERROR(Decide());
    if (part_.kind != Part::Kind::kJoin) return begun;
    if (own != tls_) {  // It listens with a certificate that nobody will know.
      listener_.reset();
      host_.reset();
      TP_RETURN_IF_ERROR(StartServices());
    }
  }
  return JoinCluster();
}

wire::AggregatorOptions Node::MakeAggregatorOptions() {
  wire::AggregatorOptions options;
  options.flush_delay_us = options_.flush_delay_us;
  options.deliver = [this](CoreId core, std::vector<wire::ForwardedOutcome> outcomes) {
    cores_->OnForwarded(core, std::move(outcomes));
  };
  options.target = [this] {
    wire::AggregatorTarget target;
    target.addresses.push_back(host_->address());
    const placement::PlacementMapPtr map = state_.map.Get();
    for (const placement::Node& node : map->nodes) {
      if (node.control_address != host_->address()) {
        target.addresses.push_back(node.control_address);
      }
    }
    target.token = token_;
    target.devices = options_.net_devices.empty() ? interface_.name : options_.net_devices;
    target.security = security_;
    return target;
  };
  return options;
}

Status Node::OpenIdentity() {
  const bool has_file = options_.join.empty() || !options_.cluster.empty();
  std::string folder = options_.data_dir;
  if (folder.empty()) {
    auto first = FirstNvmDirectory(options_);
    if (!first.ok()) return first.status();
    folder = *std::move(first);
  }
  data_dir_given_ = !folder.empty();
  if (has_file) {
    auto path = cluster_file::PathForDaemon(options_.cluster, environment_);
    if (!path.ok()) return path.status();
    file_path_ = *std::move(path);
    // Before anything is made beside it.
    TP_RETURN_IF_ERROR(cluster_file::CheckFolderOf(file_path_, "write the connection file"));
    if (folder.empty()) folder = cluster_file::DataFolderFor(file_path_);
  } else if (folder.empty()) {
    auto path = cluster_file::UserServicePath(environment_, /*make_folder=*/true);
    if (!path.ok()) return path.status();
    folder = cluster_file::FolderOf(*path) + "/" + FolderNameOf(options_.join);
  }
  auto identity =
      data_dir_given_ ? Identity::Open(folder, options_.adopt) : Identity::OpenFirstFree(folder);
  if (!identity.ok()) {
    return Status(identity.code(), "data folder: " + std::string(identity.status().what()),
                  identity.status().remedy().empty()
                      ? "name a folder on a local disk with --data-dir"
                      : std::string(identity.status().remedy()));
  }
  identity_ = *std::move(identity);
  state_.uuid = identity_->uuid();
  state_.incarnation = identity_->incarnation();
  state_.host = identity_->host();
  if (by_election()) return OpenEtcd();
  store_ = std::make_unique<EmbeddedStore>(identity_->folder());
  return OkStatus();
}

Status Node::OpenDevices() {
  auto volume = OpenVolume(options_, &*identity_);
  if (!volume.ok()) return volume.status();
  volume_ = *std::move(volume);
  state_.volume = volume_.get();
  if (volume_ == nullptr) return OkStatus();
  auto catalog = NodeCatalog::Open(volume_.get());
  if (!catalog.ok()) return catalog.status();
  catalog_ = *std::move(catalog);
  return OkStatus();
}

Status Node::DecideByFile() {
  auto saved = store_->Load();
  if (!saved.ok()) return saved.status();
  state_uuid_ = saved->has_value() ? (*saved)->map.cluster_uuid : "";
  nodes_of_state_ = saved->has_value() ? (*saved)->map.nodes_expected : 0;
  FoundingContext context;
  context.path = file_path_;
  context.state_uuid = state_uuid_;
  context.options = &options_;
  context.identity = &*identity_;
  context.environment = environment_;
  context.probe = convert::ProbeCluster;
  context.keeps_durable = catalog_.has_value() && !catalog_->found().empty();
  context.stopped = [this] { return stop_.requested(); };
  auto part = DecidePart(context);
  if (!part.ok()) return part.status();
  part_ = *std::move(part);
  return OkStatus();
}

Status Node::Decide() {
  std::uint32_t nodes = options_.nodes;
  if (by_election()) {
    TP_RETURN_IF_ERROR(DecideByElection());
  } else {
    TP_RETURN_IF_ERROR(DecideByFile());
  }
  if (part_.file.has_value()) nodes = part_.file->nodes_expected;
  if (nodes_of_state_ != 0) nodes = nodes_of_state_;
  const bool is_alone = options_.join.empty() ? nodes == 1 : convert::IsLoopback(options_.join);
  auto interface = ChooseInterface(options_.interface, is_alone);
  if (!interface.ok()) return interface.status();
  interface_ = *std::move(interface);
  return ChooseSecurity();
}

Status Node::StartNetwork() {
  transport::NodeTransportSettings settings;
  settings.use = options_.transport;
  settings.ucx.devices = options_.net_devices.empty() ? interface_.name : options_.net_devices;
  settings.ucx.endpoints_expected = options_.clients_expected;
  settings.ucx.proves_frames = true;
  settings.ring.memory_bytes = RingBytesMax(options_) / options_.cores;
  const auto path = cluster_file::UserServicePath(environment_, /*make_folder=*/true);
  if (path.ok()) {
    settings.ring.folder = cluster_file::FolderOf(*path);
  } else if (settings.use != transport::TransportUse::kUcx) {
    log::Warn("no place for sockets, so clients of this machine use the network: " +
              path.status().ToString());
    settings.use = transport::TransportUse::kUcx;
  }
  auto context = transport::MakeNodeContext(settings);
  if (!context.ok()) return context.status();
  context_ = *std::move(context);
  CoreGroupOptions group;
  group.cores = options_.cores;
  group.memory_bytes = options_.memory_bytes;
  group.wait_policy = options_.wait;
  if (options_.pin) group.cpus = AllowedCpus();
  auto functions = Functions::Load(SplitList(options_.functions));
  if (!functions.ok()) return functions.status();
  group.functions = *std::move(functions);
  group.aggregator = aggregator_.get();
  group.volume = volume_.get();
  group.slow_ns = std::uint64_t{options_.slowlog_us} * 1'000;
  if (options_.rdma == "auto") {
    if (transport::HasRdmaDevice()) group.memory_transports = transport::kRdmaTransports;
  } else if (options_.rdma != "off") {
    group.memory_transports = options_.rdma;
  }
  group.memory_address = interface_.address;
  auto cores = CoreGroup::Start(group, &lease_, context_.get());
  if (!cores.ok()) return cores.status();
  cores_ = *std::move(cores);
  return OkStatus();
}

// Before the services: who asks meanwhile finds nobody, and hears of a node that is down, never of
// records that are not there.
Status Node::ReadBack() {
  if (!catalog_.has_value()) return OkStatus();
  auto recovered = RecoverNode(cores_.get(), *catalog_);
  if (!recovered.ok()) return recovered.status();
  state_.recovery = *std::move(recovered);
  return OkStatus();
}

Status Node::StartServices() {
  state_.option_values = loaded_.values;
  state_.version = TIDEPOOL_VERSION;
  state_.started_ns = Clock::Real().MonotonicNs();
  state_.cores = cores_.get();
  state_.request_stop = [this](const StopRequest& request) { stop_.Request(request); };
  RouterContext router;
  router.cores = cores_.get();
  router.map = [this] { return state_.map.Get(); };
  router.self = [this] { return state_.self(); };
  router.channel = [this](const placement::Node& node) {
    return state_.peers.Get(node.control_address);
  };
  router.authorize = [this](grpc::ClientContext& call) { state_.peers.Authorize(call); };
  // With etcd the map says which nodes are down. The coordinator's silence is no sign: there may be
  // a new one, and the node itself serves as long as etcd renews its lease.
  router.check_answers = [this](NodeId node) {
    return by_election() ? OkStatus() : state_.CheckAnswers(node);
  };
  router.refresh_map = [this](Epoch known, Deadline deadline) {
    if (Member* member = state_.member.load(); member != nullptr) member->Refresh(known, deadline);
  };
  router.sync_map = [this](Deadline deadline) {
    if (Member* member = state_.member.load(); member != nullptr) member->Sync(deadline);
  };
  router_ = std::make_unique<RequestRouter>(std::move(router));
  state_.session = session_.get();
  state_.router = router_.get();
  state_.splitter = &splitter_;
  data_service_ = std::make_unique<DataService>(router_.get());
  bulk_service_ = std::make_unique<BulkService>(router_.get());
  staging_service_ = std::make_unique<StagingService>(router_.get(), &state_.saved);
  snapshots_service_ = std::make_unique<SnapshotsService>(router_.get());

  TP_RETURN_IF_ERROR(StartListener());
  GatedServices services;
  services.cluster = &cluster_service_;
  services.namespaces = &namespaces_service_;
  services.admin = &admin_service_;
  services.data = data_service_.get();
  services.bulk = bulk_service_.get();
  std::uint32_t port = options_.port;
  if (port == 0 && part_.kind == Part::Kind::kReturn && !by_election()) {
    // Nodes that joined by address alone find their coordinator where it was.
    auto saved = store_->Load();
    if (saved.ok() && saved->has_value() && !(*saved)->map.nodes.empty()) {
      port = PortOf((*saved)->map.nodes.front().control_address);
    }
    if (!CheckPort(interface_.address, port).ok()) port = 0;
  }
  std::vector<std::unique_ptr<grpc::Service>> more;
  more.push_back(MakeStagingGate(&authenticator_, staging_service_.get()));
  more.push_back(MakeSnapshotsGate(&authenticator_, snapshots_service_.get()));
  more.push_back(MakeMovesGate(&authenticator_, &moves_service_));
  auto host = ServiceHost::Start(interface_, port, tls_.has_value() ? &*tls_ : nullptr,
                                 options_.memory_bytes, &authenticator_, services, std::move(more));
  if (!host.ok()) return host.status();
  host_ = *std::move(host);
  state_.control_address = host_->address();
  return OkStatus();
}

// Before the services, which tell where it is.
Status Node::StartListener() {
  state_.metrics_url.clear();
  const std::string& port = options_.metrics_port;
  if (port == "off") return OkStatus();
  ListenerOptions listener;
  listener.address = options_.metrics_remote ? interface_.address : "127.0.0.1";
  listener.port = port == "auto" ? 0 : static_cast<std::uint32_t>(std::stoul(port));
  if (options_.metrics_remote) {
    listener.tls = tls_.has_value() ? &*tls_ : nullptr;
    listener.access = Access([this](std::string_view token) {
      return authenticator_.IsRight("Bearer " + std::string(token));
    });
  }
  auto started = Listener::Start(std::move(listener),
                                 [this](std::string_view path) { return pages_.Answer(path); });
  if (!started.ok()) {
    // Nobody has asked for it by name: the node does without.
    if (port != "auto") return started.status();
    log::Warn("no metrics and no status page: " + started.status().ToString());
    return OkStatus();
  }
  listener_ = *std::move(started);
  state_.metrics_url = listener_->url();
  const std::string& host = identity_->host();
  log::Info("metrics and status page at " +
            machine::PageText(listener_->url(), host, machine::LoginHostOf(host, host)));
  return OkStatus();
}

bool Node::WaitFormed() {
  while (!stop_.requested()) {
    const placement::PlacementMapPtr map = state_.map.Get();
    if (!map->forming()) {
      host_->SetHealth(true);
      return true;
    }
    log::Info("forming: " + std::to_string(map->nodes.size()) + " of " +
              std::to_string(map->nodes_expected) + " nodes have joined");
    while (!stop_.requested() && state_.map.Get()->epoch == map->epoch) {
      state_.map.WaitFor(Epoch(map->epoch.value() + 1), Deadline::AfterMs(200));
    }
  }
  return false;
}

std::string Node::Describe() {
  const placement::PlacementMapPtr map = state_.map.Get();
  std::string text = "node " + std::to_string(state_.self().value()) + " of " +
                     std::to_string(map->nodes_expected) + " at " + host_->address();
  if (!file_path_.empty()) text += ", cluster file " + file_path_;
  return text;
}

std::vector<NamespaceId> Node::NothingToLose(bool loss_agreed) {
  std::vector<NamespaceId> spaces;
  const v1::NodeStatusResponse status =
      LocalNodeStatus(&state_, NamespaceId(), Deadline::AfterMs(kNodeStatusTimeoutMs));
  const placement::PlacementMapPtr map = state_.map.Get();
  for (const auto& [id, space] : map->namespaces) {
    const bool holds_records = std::any_of(
        status.namespaces().begin(), status.namespaces().end(), [id = id](const auto& each) {
          return each.namespace_id() == id.value() && each.records() > 0;
        });
    if (loss_agreed || !holds_records) spaces.push_back(id);
  }
  return spaces;
}

void Node::Drain(const StopRequest& request, const std::string& reason) {
  stop_.SetHook({});
  host_->SetHealth(false);
  staging_service_->Stop();
  state_.moves.Stop();
  splitter_.Stop();
  aggregator_->Stop();
  RecordLosses(request, reason);
  const std::vector<NamespaceId> spaces = NothingToLose(request.loss_agreed);
  const std::string summary = MakeSummary(&state_, Deadline::AfterMs(kNodeStatusTimeoutMs));
  may_be_elected_ = false;
  member_->Stop();
  if (request.failure.ok()) {
    const Status left = member_->Leave(spaces, Deadline::AfterMs(kLeaveMs));
    if (!left.ok())
      log::Warn("the coordinator did not hear that this node leaves: " + left.ToString());
  }
  // The lease is given up: nothing is answered any more that would have to be durable too.
  if (volume_ != nullptr) CloseDevices();
  coordinator_stop_.Request({});
  if (coordinator_thread_.joinable()) coordinator_thread_.join();
  if (coordinator_ != nullptr) EndCoordinator(request.whole_cluster);
  if (session_ != nullptr) session_->End(Deadline::AfterMs(kLeaveMs));
  state_.map.Close();
  listener_.reset();
  // Before the port closes: the last daemon removes the folders of the others.
  if (!data_dir_given_) identity_->Release();
  host_->Stop(Deadline::AfterMs(kCallsInProgressMs));
  if (request.failure.ok()) RemoveFilesOfCluster();
  WriteSummary(summary);
  log::Info("stopped in good order");
}

void Node::WriteSummary(const std::string& summary) const {
  // A folder that nobody has named goes with its cluster.
  if (options_.summary_file.empty() && !data_dir_given_) return;
  const std::string path =
      options_.summary_file.empty() ? identity_->folder() + "/summary.json" : options_.summary_file;
  const Status written = cluster_file::ReplaceFile(path, summary);
  if (!written.ok()) return log::Warn("no summary of this node: " + written.ToString());
  log::Info("summary in " + path);
}

// A device that does not take all in time has had no clean stop: the next start goes by its last
// mark.
void Node::CloseDevices() {
  if (!catalog_->empty()) {
    const auto persisted = PersistNode(cores_.get(), Deadline::AfterMs(kPersistMs), true);
    if (!persisted.ok()) {
      log::Error("what changed last is not durable: " + persisted.status().ToString());
      return;
    }
  }
  const Status closed = volume_->Close();
  if (!closed.ok()) log::Error("the devices do not know of a clean stop: " + closed.ToString());
}

}  // namespace tidepool::daemon
