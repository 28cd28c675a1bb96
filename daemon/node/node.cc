#include "daemon/node/node.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "daemon/config/split_list.h"
#include "daemon/control/persist.h"
#include "daemon/control/recovery.h"
#include "daemon/node/cluster_end.h"
#include "daemon/ops/functions.h"
#include "daemon/services/node_status.h"
#include "daemon/status_page/summary.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"
#include "proto/cluster_file/disk_reserve.h"
#include "proto/cluster_file/file_io.h"
#include "proto/transport/node_transport.h"
#include "proto/transport/remote_memory.h"

namespace tidepool::daemon {
namespace {

constexpr std::uint64_t kLeaveMs = 2000;
constexpr std::uint64_t kCallsInProgressMs = 2000;
// Bound on a clean stop: a window's changes at the speed of a slow disk.
constexpr std::uint64_t kPersistMs = 20'000;

// Bound on the memory of same-node connections. With rings of 256 KiB each way it allows 60 to
// 2,000 connections, and a quarter more, because the last quarter of it goes to smaller rings.
std::uint64_t RingBytesMax(const Options& options) {
  return std::clamp<std::uint64_t>(options.memory_bytes / 16, 32ull << 20, 1ull << 30);
}

}  // namespace

Node::Node(const LoadedOptions& loaded, StopSignal* stop)
    : loaded_(loaded),
      options_(loaded_.options),
      stop_(*stop),
      state_(loaded.options),
      bootstrap_(options_, stop, &lease_, cluster_file::ProcessEnvironment()),
      services_(&state_) {}

// A caller ends before its callees.
Node::~Node() {
  stop_.SetHook({});
  services_.StopListener();
  if (aggregator_ != nullptr) aggregator_->Stop();
  services_.StopStaging();
  state_.moves.Stop();
  if (election_.has_value()) election_->SetCandidate(false);
  if (member_ != nullptr) member_->Stop();
  if (election_.has_value()) election_->Stop();
  // A start that failed has not ended its session.
  if (EtcdSession* session = bootstrap_.session(); session != nullptr) {
    session->End(Deadline::AfterMs(kLeaveMs));
  }
  state_.map.Close();
  if (election_.has_value()) election_->Close();
  services_.StopHost(Deadline::AfterMs(0));
  services_.StopSplitter();
  services_.StopKeeper();
}

Result<std::unique_ptr<Node>> Node::Start(const LoadedOptions& loaded, StopSignal* stop,
                                          const wire::AggregatorMaker& make_aggregator) {
  std::unique_ptr<Node> node(new Node(loaded, stop));
  node->aggregator_ = make_aggregator(node->MakeAggregatorOptions());
  const Status started = node->Run();
  // The folder outlives the daemon, and the start has not given it up.
  Bootstrap& bootstrap = node->bootstrap_;
  if (bootstrap.data_dir_given() && bootstrap.has_identity() &&
      access((bootstrap.identity().folder() + "/identity.json").c_str(), F_OK) == 0) {
    cluster_file::RefillReserve(bootstrap.identity().folder());
  }
  if (!started.ok()) return started;
  return node;
}

Status Node::Prepare() {
  TP_RETURN_IF_ERROR(bootstrap_.OpenDevices());  // Durable data has a say in the next step.
  state_.volume = bootstrap_.volume();
  TP_RETURN_IF_ERROR(Decide());
  TP_RETURN_IF_ERROR(StartNetwork());
  TP_RETURN_IF_ERROR(ReadBack());
  return StartServices();
}

Status Node::Run() {
  TP_RETURN_IF_ERROR(OpenIdentity());
  if (const Status prepared = Prepare(); !prepared.ok()) {
    bootstrap_.GiveUp();
    return prepared;
  }
  if (bootstrap_.part().kind != Part::Kind::kJoin) {
    const Status begun = BeginCluster();
    if (begun == StatusCode::kUnavailable && bootstrap_.by_election()) {
      return Status(
          begun.code(),
          "the election was lost before this node had begun: " + std::string(begun.what()),
          "start it again: it joins whom was elected then");
    }
    // Another starter was first, on a file system without locks. With etcd an election was before.
    if (begun != StatusCode::kAlreadyExists || bootstrap_.by_election()) return begun;
    const auto own = bootstrap_.tls();
    TP_RETURN_IF_ERROR(Decide());
    if (bootstrap_.part().kind != Part::Kind::kJoin) return begun;
    if (own != bootstrap_.tls()) {  // It listens with a certificate that no client will know.
      services_.Stop();
      TP_RETURN_IF_ERROR(StartServices());
    }
  }
  return JoinCluster();
}

Status Node::OpenIdentity() {
  TP_RETURN_IF_ERROR(bootstrap_.OpenIdentity());
  const Identity& identity = bootstrap_.identity();
  state_.uuid = identity.uuid();
  state_.incarnation = identity.incarnation();
  state_.host = identity.host();
  ConnectionFileOptions file;
  file.path = bootstrap_.file_path();
  file.node_uuid = identity.uuid();
  file.job_id = cluster_file::JobId(bootstrap_.environment());
  file.munge = options_.auth == kAuthMunge;
  file.insecure = options_.insecure;
  file.by_election = bootstrap_.by_election();
  file.look_ms = options_.lease_ms;
  file_.emplace(std::move(file));
  return OkStatus();
}

Status Node::Decide() {
  TP_RETURN_IF_ERROR(bootstrap_.Decide());
  state_.peers.SetSecurity(bootstrap_.security());
  file_->SetTls(bootstrap_.tls());
  ElectionContext election;
  election.session = bootstrap_.session();
  election.etcd = bootstrap_.etcd();
  election.prefix = bootstrap_.etcd_prefix();
  election.members = bootstrap_.members();
  election_.emplace(&state_, &*file_, std::move(election));
  return OkStatus();
}

wire::AggregatorOptions Node::MakeAggregatorOptions() {
  wire::AggregatorOptions options;
  options.flush_delay_us = options_.flush_delay_us;
  options.deliver = [this](CoreId core, std::vector<wire::ForwardedOutcome> outcomes) {
    cores_->OnForwarded(core, std::move(outcomes));
  };
  options.target = [this] {
    wire::AggregatorTarget target;
    target.addresses.push_back(state_.control_address);
    const placement::PlacementMapPtr map = state_.map.Get();
    for (const placement::Node& node : map->nodes) {
      if (node.control_address != state_.control_address) {
        target.addresses.push_back(node.control_address);
      }
    }
    target.token = token_;
    target.devices =
        options_.net_devices.empty() ? bootstrap_.interface().name : options_.net_devices;
    target.security = bootstrap_.security();
    return target;
  };
  return options;
}

Status Node::StartNetwork() {
  transport::NodeTransportSettings settings;
  settings.use = options_.transport;
  settings.ucx.devices =
      options_.net_devices.empty() ? bootstrap_.interface().name : options_.net_devices;
  settings.ucx.endpoints_expected = options_.clients_expected;
  settings.ucx.proves_frames = true;
  settings.ring.memory_bytes = RingBytesMax(options_) / options_.cores;
  const auto path = cluster_file::UserServicePath(bootstrap_.environment(), /*make_folder=*/true);
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
  group.volume = bootstrap_.volume();
  group.slow_ns = std::uint64_t{options_.slowlog_us} * 1'000;
  if (options_.rdma == "auto") {
    if (transport::HasRdmaDevice()) group.memory_transports = transport::kRdmaTransports;
  } else if (options_.rdma != "off") {
    group.memory_transports = options_.rdma;
  }
  group.memory_address = bootstrap_.interface().address;
  auto cores = CoreGroup::Start(group, &lease_, context_.get());
  if (!cores.ok()) return cores.status();
  cores_ = *std::move(cores);
  return OkStatus();
}

// Comes before the services: clients meanwhile see a node that is down, never absent records.
Status Node::ReadBack() {
  if (!bootstrap_.catalog().has_value()) return OkStatus();
  auto recovered = RecoverNode(cores_.get(), *bootstrap_.catalog());
  if (!recovered.ok()) return recovered.status();
  state_.recovery = *std::move(recovered);
  return OkStatus();
}

Status Node::StartServices() {
  state_.option_values = loaded_.values;
  state_.version = TIDEPOOL_VERSION;
  state_.started_ns = Clock::Real().MonotonicNs();
  state_.cores = cores_.get();
  state_.session = bootstrap_.session();
  state_.request_stop = [this](const StopRequest& request) { stop_.Request(request); };
  NodeServicesOptions services;
  services.interface = bootstrap_.interface();
  services.port = options_.port;
  services.former_port = options_.port != 0 ? 0 : bootstrap_.PortToReturnTo();
  services.tls = bootstrap_.tls().has_value() ? &*bootstrap_.tls() : nullptr;
  services.by_election = bootstrap_.by_election();
  return services_.Start(services);
}

bool Node::WaitFormed() {
  while (!stop_.requested()) {
    const placement::PlacementMapPtr map = state_.map.Get();
    if (!map->forming()) {
      services_.host().SetHealth(true);
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
                     std::to_string(map->nodes_expected) + " at " + state_.control_address;
  if (!file_->path().empty()) text += ", cluster file " + file_->path();
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

std::vector<cluster_file::LostNamespace> Node::FindLosses() {
  const v1::CheckStopResponse found =
      services_.admin().FindLosses(/*cluster=*/false, Deadline::AfterMs(kNodeStatusTimeoutMs));
  std::vector<cluster_file::LostNamespace> lost;
  for (const auto& loss : found.losses()) {
    lost.push_back({loss.namespace_(), loss.records(), loss.bytes()});
  }
  return lost;
}

void Node::RecordLosses(const StopRequest& request, const std::string& reason) {
  if (request.loss_agreed) return;
  cluster_file::LossRecord record;
  record.lost = FindLosses();
  if (record.lost.empty()) return;
  record.reason = request.failure.ok() ? reason : std::string(request.failure.what());
  log::Error("this daemon ends by " + record.reason +
             " with data that was neither staged out nor durable; lost: " +
             cluster_file::LossText(record.lost));
  if (file_->path().empty()) return;
  record.cluster_uuid = state_.map.Get()->cluster_uuid;
  record.node_uuid = state_.uuid;
  record.host = state_.host;
  record.at_ms = Clock::Real().WallMs();
  const Status written = cluster_file::WriteLossRecord(file_->path(), record);
  if (!written.ok()) log::Warn("kvctl cannot say what was lost: " + written.ToString());
}

void Node::Drain(const StopRequest& request, const std::string& reason) {
  stop_.SetHook({});
  services_.host().SetHealth(false);
  services_.StopStaging();
  state_.moves.Stop();
  services_.StopSplitter();
  services_.StopKeeper();
  aggregator_->Stop();
  RecordLosses(request, reason);
  const std::vector<NamespaceId> spaces = NothingToLose(request.loss_agreed);
  const std::string summary = MakeSummary(&state_, Deadline::AfterMs(kNodeStatusTimeoutMs));
  election_->SetCandidate(false);
  member_->Stop();
  if (request.failure.ok()) {
    const Status left = member_->Leave(spaces, Deadline::AfterMs(kLeaveMs));
    if (!left.ok())
      log::Warn("the coordinator did not hear that this node leaves: " + left.ToString());
  }
  // The lease is given up: nothing is answered any more that would have to be durable too.
  if (bootstrap_.volume() != nullptr) CloseDevices();
  election_->Stop();
  election_->End(request.whole_cluster, /*keep_state=*/bootstrap_.data_dir_given());
  if (EtcdSession* session = bootstrap_.session(); session != nullptr) {
    session->End(Deadline::AfterMs(kLeaveMs));
  }
  state_.map.Close();
  services_.StopListener();
  // Comes before the port closes: the last daemon removes the folders of the other daemons.
  if (!bootstrap_.data_dir_given()) bootstrap_.identity().Release();
  services_.StopHost(Deadline::AfterMs(kCallsInProgressMs));
  if (request.failure.ok()) {
    file_->Release();
    ClusterEnd end;
    end.file_path = file_->path();
    end.node_uuid = state_.uuid;
    if (bootstrap_.data_dir_given()) end.given_folder = bootstrap_.identity().folder();
    end.keep_folders = bootstrap_.by_election();
    if (const auto map = state_.map.Get(); map != nullptr) RemoveFilesOfCluster(*map, end);
  }
  WriteSummary(summary);
  log::Info("stopped in good order");
}

void Node::WriteSummary(const std::string& summary) {
  // A folder that the user has not named goes with its cluster.
  if (options_.summary_file.empty() && !bootstrap_.data_dir_given()) return;
  const std::string path = options_.summary_file.empty()
                               ? bootstrap_.identity().folder() + "/summary.json"
                               : options_.summary_file;
  const Status written = cluster_file::ReplaceFile(path, summary);
  if (!written.ok()) return log::Warn("no summary of this node: " + written.ToString());
  log::Info("summary in " + path);
}

// A device that does not take all in time has had no clean stop: the next start goes by its last
// mark.
void Node::CloseDevices() {
  if (!bootstrap_.catalog()->empty()) {
    const auto persisted = PersistNode(cores_.get(), Deadline::AfterMs(kPersistMs), true);
    if (!persisted.ok()) {
      log::Error("what changed last is not durable: " + persisted.status().ToString());
      return;
    }
  }
  const Status closed = bootstrap_.volume()->Close();
  if (!closed.ok()) log::Error("the devices do not know of a clean stop: " + closed.ToString());
}

}  // namespace tidepool::daemon
