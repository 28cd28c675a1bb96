#include "daemon/node.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "daemon/functions.h"
#include "daemon/node_volume.h"
#include "daemon/persist.h"
#include "daemon/recovery.h"
#include "daemon/services/node_status.h"
#include "daemon/split_list.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"
#include "proto/cluster_file/file_io.h"
#include "proto/cluster_file/job_token.h"
#include "proto/convert/grpc_channel.h"
#include "proto/convert/probe_cluster.h"
#include "proto/transport/node_transport.h"

namespace tidepool::daemon {
namespace {

constexpr std::uint64_t kInstallMs = 5000;
constexpr std::uint64_t kLeaveMs = 2000;
constexpr std::uint64_t kCallsInProgressMs = 2000;
// Of a clean stop: a window's changes at the speed of a slow disk.
constexpr std::uint64_t kPersistMs = 20'000;

// What same-node connections may take: with rings of 256 KiB each way some 60 to 2,000 of them, and
// twice that in the end, as the last get smaller ones.
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

// As JoinRequest.nvm_medium.
std::string MediumOf(const storage::Volume* volume) {
  std::string medium;
  for (std::size_t i = 0; volume != nullptr && i < volume->device_count(); ++i) {
    const char* const each =
        volume->device(i).medium() == storage::DeviceMedium::kDax ? "dax" : "file";
    medium = medium.empty() || medium == each ? each : "mixed";
  }
  return medium;
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
  if (aggregator_ != nullptr) aggregator_->Stop();
  if (staging_service_ != nullptr) staging_service_->Stop();
  state_.moves.Stop();
  if (member_ != nullptr) member_->Stop();
  coordinator_stop_.Request({});
  if (coordinator_thread_.joinable()) coordinator_thread_.join();
  state_.map.Close();
  if (coordinator_ != nullptr) coordinator_->map().Close();
  if (host_ != nullptr) host_->Stop(Deadline::AfterMs(0));
}

Result<std::unique_ptr<Node>> Node::Start(const LoadedOptions& loaded, StopSignal* stop,
                                          const wire::AggregatorMaker& make_aggregator) {
  std::unique_ptr<Node> node(new Node(loaded, stop));
  node->aggregator_ = make_aggregator(node->MakeAggregatorOptions());
  const Status started = node->Run();
  if (!started.ok()) return started;
  return node;
}

Status Node::Run() {
  TP_RETURN_IF_ERROR(OpenIdentity());
  TP_RETURN_IF_ERROR(OpenDevices());  // What they keep has a say in the next.
  TP_RETURN_IF_ERROR(Decide());
  TP_RETURN_IF_ERROR(StartNetwork());
  TP_RETURN_IF_ERROR(ReadBack());
  TP_RETURN_IF_ERROR(StartServices());
  if (part_.kind != Part::Kind::kJoin) {
    const Status begun = BeginCluster();
    // Another starter was first, on a file system without locks.
    if (begun != StatusCode::kAlreadyExists) return begun;
    TP_RETURN_IF_ERROR(Decide());
    if (part_.kind != Part::Kind::kJoin) return begun;
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
    for (const placement::Node& node : state_.map.Get()->nodes) {
      if (node.control_address != host_->address()) {
        target.addresses.push_back(node.control_address);
      }
    }
    target.token = token_;
    target.devices = options_.net_devices.empty() ? interface_.name : options_.net_devices;
    target.insecure = options_.insecure;
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
  auto identity = data_dir_given_ ? Identity::Open(folder) : Identity::OpenFirstFree(folder);
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

Status Node::Decide() {
  auto saved = store_->Load();
  if (!saved.ok()) return saved.status();
  state_uuid_ = saved->has_value() ? (*saved)->map.cluster_uuid : "";
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

  std::uint32_t nodes = options_.nodes;
  if (part_.file.has_value()) nodes = part_.file->nodes_expected;
  if (saved->has_value()) nodes = (*saved)->map.nodes_expected;
  const bool is_alone = options_.join.empty() ? nodes == 1 : convert::IsLoopback(options_.join);
  auto interface = ChooseInterface(options_.interface, is_alone);
  if (!interface.ok()) return interface.status();
  interface_ = *std::move(interface);
  if (!interface_.is_loopback && !options_.insecure) {
    return Status(StatusCode::kFailedPrecondition,
                  "listening on " + interface_.name + " (" + interface_.address +
                      ") needs TLS, which is not in this version",
                  "give --insecure if the network between the nodes is trusted, or --interface lo "
                  "for daemons of this machine only");
  }
  return OkStatus();
}

Status Node::StartNetwork() {
  transport::NodeTransportSettings settings;
  settings.use = options_.transport;
  settings.ucx.devices = options_.net_devices.empty() ? interface_.name : options_.net_devices;
  settings.ucx.endpoints_expected = options_.clients_expected;
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
  state_.request_stop = [this](bool loss_agreed) { stop_.Request({loss_agreed, OkStatus()}); };
  RouterContext router;
  router.cores = cores_.get();
  router.map = [this] { return state_.map.Get(); };
  router.self = [this] { return state_.self(); };
  router.channel = [this](const placement::Node& node) {
    return state_.peers.Get(node.control_address);
  };
  router.authorize = [this](grpc::ClientContext& call) { state_.peers.Authorize(call); };
  router.check_answers = [this](NodeId node) { return state_.CheckAnswers(node); };
  router.refresh_map = [this](Epoch known, Deadline deadline) {
    if (Member* member = state_.member.load(); member != nullptr) member->Refresh(known, deadline);
  };
  router.sync_map = [this](Deadline deadline) {
    if (Member* member = state_.member.load(); member != nullptr) member->Sync(deadline);
  };
  router_ = std::make_unique<RequestRouter>(std::move(router));
  state_.router = router_.get();
  state_.splitter = &splitter_;
  data_service_ = std::make_unique<DataService>(router_.get());
  bulk_service_ = std::make_unique<BulkService>(router_.get());
  staging_service_ = std::make_unique<StagingService>(router_.get(), &state_.saved);
  snapshots_service_ = std::make_unique<SnapshotsService>(router_.get());

  GatedServices services;
  services.cluster = &cluster_service_;
  services.namespaces = &namespaces_service_;
  services.admin = &admin_service_;
  services.data = data_service_.get();
  services.bulk = bulk_service_.get();
  std::uint32_t port = options_.port;
  if (port == 0 && part_.kind == Part::Kind::kReturn) {
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
  auto host = ServiceHost::Start(interface_, port, &authenticator_, services, std::move(more));
  if (!host.ok()) return host.status();
  host_ = *std::move(host);
  return OkStatus();
}

v1::JoinRequest Node::MakeJoinRequest(const std::string& cluster_uuid) const {
  v1::JoinRequest request;
  request.set_cluster_uuid(cluster_uuid);
  request.set_uuid(identity_->uuid());
  request.set_incarnation(identity_->incarnation());
  request.set_control_address(host_->address());
  request.set_host(identity_->host());
  request.set_cores(options_.cores);
  request.set_version(TIDEPOOL_VERSION);
  request.set_pid(static_cast<std::uint32_t>(getpid()));
  request.set_directory(identity_->folder());
  request.set_directory_device(identity_->device());
  request.set_directory_inode(identity_->inode());
  request.set_nvm(volume_ != nullptr);
  request.set_nvm_medium(MediumOf(volume_.get()));
  if (!catalog_.has_value()) return request;
  request.set_kept_cluster_uuid(catalog_->cluster_uuid());
  bool stopped_cleanly = true;
  for (std::size_t i = 0; i < volume_->device_count(); ++i) {
    stopped_cleanly = stopped_cleanly && volume_->found(i).clean_stop;
  }
  request.set_kept_complete(stopped_cleanly);
  for (const RecoveredPartition& each : state_.recovery.partitions) {
    if (each.lost) continue;
    v1::KeptPartition* kept = request.add_kept();
    kept->set_namespace_id(each.id.space().value());
    kept->set_index(each.id.index());
    kept->set_term(each.term.value());
    kept->set_last_version(each.last.value());
  }
  return request;
}

cluster_file::ClusterFile Node::MakeClusterFile(const placement::PlacementMap& map) const {
  cluster_file::ClusterFile file;
  file.cluster_uuid = map.cluster_uuid;
  file.job_id = cluster_file::JobId(environment_);
  file.nodes_expected = map.nodes_expected;
  file.coordinator = 0;
  file.token_file = token_file_;
  file.insecure = options_.insecure;
  for (const placement::Node& node : map.nodes) {
    file.nodes.push_back({node.uuid, node.control_address, node.host});
  }
  return file;
}

// The coordinator that comes back must have the token that its members know.
Result<std::string> Node::TokenOfCluster() {
  const std::string path = identity_->folder() + "/token";
  if (part_.kind == Part::Kind::kReturn) {
    auto token = cluster_file::ReadTokenFile(path);
    if (token.ok() || token.code() != StatusCode::kNotFound) return token;
  }
  std::string token = cluster_file::MakeToken();
  TP_RETURN_IF_ERROR(cluster_file::WriteTokenFile(path, token));
  return token;
}

Status Node::BeginCluster() {
  CoordinatorOptions options;
  options.nodes_expected = options_.nodes;
  options.nodes_given = options_.nodes_given;
  options.lease_ms = options_.lease_ms;
  options.heartbeat_ms = options_.heartbeat_ms;
  auto coordinator = Coordinator::Open(store_.get(), options);
  if (!coordinator.ok()) return coordinator.status();
  coordinator_ = *std::move(coordinator);
  const std::string& cluster = coordinator_->cluster_uuid();
  auto token = TokenOfCluster();
  if (!token.ok()) return token.status();
  token_file_ = cluster_file::TokenPathFor(file_path_, cluster);
  TP_RETURN_IF_ERROR(cluster_file::WriteTokenFile(token_file_, *token));
  // First in the coordinator's books, then in the file, then in the cores: what loses the race for
  // the file has not opened anything yet.
  auto joined = coordinator_->Join(MakeJoinRequest(cluster));
  if (!joined.ok()) return joined.status();
  host_->ShowCluster(cluster);
  // Before the file: who reads it calls with the token that it names.
  token_ = *token;
  state_.peers.SetToken(*token);
  authenticator_.SetToken(*std::move(token));
  const cluster_file::ClusterFile file = MakeClusterFile(*coordinator_->map().Get());
  auto published = part_.kind == Part::Kind::kReturn
                       ? cluster_file::PublishedFile::Adopt(file_path_, file)
                       : cluster_file::PublishedFile::Create(file_path_, file);
  if (!published.ok()) {
    unlink(token_file_.c_str());
    if (part_.kind == Part::Kind::kFirst) TP_RETURN_IF_ERROR(store_->Retire());
    coordinator_.reset();
    return published.status();
  }
  published_ = *std::move(published);
  part_.start_lock = cluster_file::Descriptor();
  state_.coordinator.store(coordinator_.get());
  TP_RETURN_IF_ERROR(JoinWith(std::make_unique<LocalLink>(coordinator_.get())));
  coordinator_thread_ = std::thread([this] { RunCoordinator(); });
  return OkStatus();
}

std::vector<std::string> Node::CoordinatorAddresses() {
  std::vector<std::string> addresses;
  const auto add = [&addresses](const std::string& address) {
    const bool is_known = std::find(addresses.begin(), addresses.end(), address) != addresses.end();
    if (!is_known && address != "") addresses.push_back(address);
  };
  if (!file_path_.empty()) {
    // As it is now: the coordinator may have come back at another address.
    auto file = cluster_file::Read(file_path_);
    if (file.ok() && part_.file.has_value() && file->cluster_uuid == part_.file->cluster_uuid) {
      add(file->nodes[file->coordinator].control_address);
      for (const auto& node : file->nodes) add(node.control_address);
    }
  }
  add(options_.join);
  if (const placement::PlacementMapPtr map = state_.map.Get(); map != nullptr) {
    for (const placement::Node& node : map->nodes) add(node.control_address);
  }
  std::erase(addresses, host_->address());
  return addresses;
}

Status Node::JoinCluster() {
  std::string token = options_.token;
  const std::string token_path =
      part_.file.has_value() ? part_.file->token_file : options_.token_file;
  if (part_.file.has_value() || token.empty()) {
    auto read = cluster_file::ReadTokenFile(token_path);
    if (!read.ok()) return read.status();
    token = *std::move(read);
  }
  if (!cluster_file::IsToken(token)) {
    return Status(StatusCode::kInvalidArgument, "TIDEPOOL_TOKEN is not a job token",
                  "a token is 64 hexadecimal digits");
  }
  token_ = token;
  state_.peers.SetToken(token);
  authenticator_.SetToken(std::move(token));
  return JoinWith(
      std::make_unique<RemoteLink>(&state_.peers, [this] { return CoordinatorAddresses(); }));
}

Status Node::JoinWith(std::unique_ptr<CoordinatorLink> link) {
  link_ = std::move(link);
  MemberCallbacks callbacks;
  callbacks.install = [this](placement::PlacementMapPtr map, NodeId self) {
    return InstallMap(std::move(map), self);
  };
  callbacks.progress = [this] { return cores_->Progress(); };
  callbacks.fenced = [this](const Status& why) { stop_.Request({false, why}); };
  member_ = std::make_unique<Member>(link_.get(), &lease_, &state_.map, std::move(callbacks));
  stop_.SetHook([this] { member_->Interrupt(); });
  const std::string cluster = part_.file.has_value()    ? part_.file->cluster_uuid
                              : coordinator_ != nullptr ? coordinator_->cluster_uuid()
                                                        : "";
  auto self = member_->Join(MakeJoinRequest(cluster), Deadline::AfterMs(options_.join_timeout_ms));
  stop_.SetHook({});
  if (!self.ok()) return self.status();
  const std::string& joined = state_.map.Get()->cluster_uuid;
  TP_RETURN_IF_ERROR(identity_->RememberCluster(joined));
  if (volume_ != nullptr) {
    const auto cluster_uuid = storage::ParseUuid(joined);
    if (!cluster_uuid.ok()) return cluster_uuid.status();
    TP_RETURN_IF_ERROR(volume_->RememberCluster(*cluster_uuid));
  }
  host_->ShowCluster(joined);
  state_.member.store(member_.get());
  member_->Start();
  splitter_.Start();
  log::Info("joined cluster " + joined + " as node " + std::to_string(self->value()) + " at " +
            host_->address() + "; data path " + cores_->Describe());
  return OkStatus();
}

Status Node::InstallMap(placement::PlacementMapPtr map, NodeId self) {
  const Status saved = catalog_.has_value() ? catalog_->Save(*map, self) : OkStatus();
  if (!saved.ok()) log::Error("durable partitions are not served: " + saved.ToString());
  return cores_->InstallMap(std::move(map), self, Deadline::AfterMs(kInstallMs), saved.ok());
}

void Node::RunCoordinator() {
  Epoch seen(0);
  while (!coordinator_stop_.WaitUntil(Deadline::AfterMs(options_.heartbeat_ms))) {
    coordinator_->Tick();
    const placement::PlacementMapPtr map = coordinator_->map().Get();
    if (map->epoch == seen) continue;
    seen = map->epoch;
    const cluster_file::ClusterFile file = MakeClusterFile(*map);
    if (file == published_->content()) continue;
    const Status updated = published_->Update(file);
    if (!updated.ok()) log::Error("the connection file is out of date: " + updated.ToString());
  }
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
  for (const auto& [id, space] : state_.map.Get()->namespaces) {
    const bool holds_records = std::any_of(
        status.namespaces().begin(), status.namespaces().end(), [id = id](const auto& each) {
          return each.namespace_id() == id.value() && each.records() > 0;
        });
    if (loss_agreed || !holds_records) spaces.push_back(id);
  }
  return spaces;
}

void Node::Drain(const StopRequest& request) {
  stop_.SetHook({});
  host_->SetHealth(false);
  staging_service_->Stop();
  state_.moves.Stop();
  splitter_.Stop();
  aggregator_->Stop();
  const std::vector<NamespaceId> spaces = NothingToLose(request.loss_agreed);
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
  if (coordinator_ != nullptr) EndCoordinator();
  state_.map.Close();
  host_->Stop(Deadline::AfterMs(kCallsInProgressMs));
  log::Info("stopped in good order");
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

// The cluster ends with its last node. If the user chose where its state lies, it can go on from
// there; otherwise the next start is a new cluster.
void Node::EndCoordinator() {
  coordinator_->map().Close();
  const placement::PlacementMapPtr map = coordinator_->map().Get();
  const bool all_left = std::all_of(
      map->nodes.begin(), map->nodes.end(),
      [](const placement::Node& node) { return node.state == placement::NodeState::kLeft; });
  if (!all_left) return;
  published_->Remove();
  if (data_dir_given_) return;
  const Status retired = store_->Retire();
  if (!retired.ok()) log::Warn("the state of the ended cluster stays: " + retired.ToString());
}

}  // namespace tidepool::daemon
