// A node's part in its cluster: begins or joins it, follows its maps, runs its coordinator.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "daemon/node/node.h"
#include "proto/base/log.h"
#include "proto/base/thread.h"
#include "proto/cluster_file/job_token.h"
#include "proto/convert/login.h"

namespace tidepool::daemon {
namespace {

constexpr std::uint64_t kInstallMs = 5000;
constexpr std::uint64_t kLoginMs = 2000;
constexpr std::uint64_t kLoginAgainMs = 200;
constexpr std::uint64_t kFormingMs = 10;

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

}  // namespace

v1::JoinRequest Node::MakeJoinRequest(const std::string& cluster_uuid) const {
  v1::JoinRequest request;
  request.set_cluster_uuid(cluster_uuid);
  request.set_uuid(identity_->uuid());
  request.set_incarnation(identity_->incarnation());
  request.set_control_address(host_->address());
  request.set_host(identity_->host());
  request.set_cores(options_.cores);
  request.set_version(TIDEPOOL_VERSION);
  request.set_store(options_.store);
  request.set_pid(static_cast<std::uint32_t>(getpid()));
  request.set_directory(identity_->folder());
  request.set_directory_device(identity_->device());
  request.set_directory_inode(identity_->inode());
  request.set_mark(identity_->mark());
  request.set_mark_before(identity_->mark_before());
  request.set_adopt(options_.adopt);
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
  // Who writes it is the coordinator.
  const auto self =
      std::find_if(map.nodes.begin(), map.nodes.end(),
                   [this](const placement::Node& node) { return node.uuid == state_.uuid; });
  file.coordinator = self == map.nodes.end() ? 0 : self->id.value();
  file.token_file = token_file_;
  file.munge = options_.auth == kAuthMunge;
  file.insecure = options_.insecure && !tls_.has_value();
  if (tls_.has_value()) file.tls = {tls_->ca, tls_->name, tls_file_, tls_->mutual};
  for (const placement::Node& node : map.nodes) {
    file.nodes.push_back({node.uuid, node.control_address, node.host});
  }
  return file;
}

// The coordinator that comes back must have the token that its members know.
Result<std::string> Node::TokenOfCluster() {
  const std::string path = identity_->folder() + "/token";
  if (part_.kind == Part::Kind::kReturn) {
    if (part_.file.has_value() && !part_.file->token_file.empty()) {
      return cluster_file::ReadTokenFile(part_.file->token_file);
    }
    auto token = cluster_file::ReadTokenFile(path);
    if (token.ok() || token.code() != StatusCode::kNotFound) return token;
  }
  std::string token = cluster_file::MakeToken();
  TP_RETURN_IF_ERROR(cluster_file::WriteTokenFile(path, token));
  return token;
}

CoordinatorOptions Node::MakeCoordinatorOptions() const {
  CoordinatorOptions options;
  options.nodes_expected = options_.nodes;
  options.nodes_given = options_.nodes_given;
  options.lease_ms = options_.lease_ms;
  options.heartbeat_ms = options_.heartbeat_ms;
  options.store = options_.store;
  return options;
}

// What the connection file names, beside it.
Status Node::WriteSecrets(const std::string& cluster, const std::string& token) {
  if (file_path_.empty()) return OkStatus();
  if (options_.auth == kAuthToken) {
    token_file_ = cluster_file::TokenPathFor(file_path_, cluster);
    TP_RETURN_IF_ERROR(cluster_file::WriteTokenFile(token_file_, token));
  }
  if (tls_.has_value() && !tls_->mutual) {
    tls_file_ = cluster_file::TlsPathFor(file_path_, cluster);
    TP_RETURN_IF_ERROR(cluster_file::WriteTlsFile(tls_file_, *tls_));
  }
  return OkStatus();
}

// Nothing without a path: with etcd a coordinator may have joined by address alone.
Status Node::PublishFile(bool is_new) {
  if (file_path_.empty()) return OkStatus();
  const cluster_file::ClusterFile file = MakeClusterFile(*coordinator_->map().Get());
  auto published = is_new ? cluster_file::PublishedFile::Create(file_path_, file)
                          : cluster_file::PublishedFile::Adopt(file_path_, file);
  if (!published.ok()) return published.status();
  published_ = *std::move(published);
  return OkStatus();
}

Status Node::BeginCluster() {
  auto coordinator = Coordinator::Open(store_.get(), MakeCoordinatorOptions());
  if (!coordinator.ok()) return coordinator.status();
  coordinator_ = *std::move(coordinator);
  const std::string& cluster = coordinator_->cluster_uuid();
  auto token = TokenOfCluster();
  if (!token.ok()) return token.status();
  TP_RETURN_IF_ERROR(WriteSecrets(cluster, *token));
  // Before the state names this node: a daemon that ends in between knows at its next start that
  // the cluster is its own, though no file says so.
  if (by_election()) TP_RETURN_IF_ERROR(identity_->RememberCluster(cluster));
  // First in the coordinator's books, then in the file, then in the cores: what loses the race for
  // the file has not opened anything yet.
  auto joined = coordinator_->Join(MakeJoinRequest(cluster), /*is_own=*/true);
  if (!joined.ok()) return joined.status();
  host_->ShowCluster(cluster);
  // Before the file: who reads it calls with the token that it names.
  token_ = *token;
  state_.peers.SetToken(*token);
  authenticator_.SetToken(*std::move(token));
  const Status published = PublishFile(part_.kind == Part::Kind::kFirst);
  if (!published.ok()) {
    if (!token_file_.empty()) unlink(token_file_.c_str());
    if (!tls_file_.empty()) unlink(tls_file_.c_str());
    if (part_.kind == Part::Kind::kFirst) TP_RETURN_IF_ERROR(store_->Retire());
    coordinator_.reset();
    return published;
  }
  part_.start_lock = cluster_file::Descriptor();
  state_.coordinator.store(coordinator_.get());
  if (by_election()) return ServeElected();
  TP_RETURN_IF_ERROR(JoinWith(std::make_unique<LocalLink>(coordinator_.get())));
  return StartThread("the coordinator", &coordinator_thread_, [this] { RunCoordinator(); });
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
  if (session_ != nullptr) {
    const auto elected = session_->Elected(Deadline::AfterMs(EtcdCallMs(options_.lease_ms)));
    if (elected.ok() && elected->has_value()) add((*elected)->address);
  }
  add(options_.join);
  if (const placement::PlacementMapPtr map = state_.map.Get(); map != nullptr) {
    for (const placement::Node& node : map->nodes) add(node.control_address);
  }
  std::erase(addresses, host_->address());
  return addresses;
}

// Of the cluster that is joined: its coordinator may be on its way back.
Result<std::string> Node::TokenByMunge() {
  const Deadline deadline = Deadline::AfterMs(options_.join_timeout_ms);
  while (!stop_.requested()) {
    const std::vector<std::string> addresses = CoordinatorAddresses();
    auto token = convert::LogInAtAny(addresses, security_, options_.munge_socket,
                                     Deadline::AfterMs(kLoginMs * addresses.size()));
    const bool is_silent =
        token.code() == StatusCode::kUnavailable || token.code() == StatusCode::kDeadlineExceeded;
    if (token.ok() || !is_silent || deadline.Passed()) return token;
    stop_.WaitUntil(Deadline::AfterMs(kLoginAgainMs));
  }
  return Status(StatusCode::kCancelled, "stopped while starting");
}

Result<std::string> Node::TokenToJoin() {
  if (part_.file.has_value() && part_.file->munge != (options_.auth == kAuthMunge)) {
    return Status(StatusCode::kFailedPrecondition,
                  "cluster " + part_.file->cluster_uuid + " was begun with --auth " +
                      std::string(part_.file->munge ? kAuthMunge : kAuthToken),
                  "start this daemon with the same");
  }
  if (options_.auth == kAuthMunge) return TokenByMunge();
  if (part_.file.has_value()) return cluster_file::ReadTokenFile(part_.file->token_file);
  if (by_election() && options_.join.empty()) {
    return cluster_file::ReadTokenFile(identity_->folder() + "/token");
  }
  if (options_.token.empty()) return cluster_file::ReadTokenFile(options_.token_file);
  if (cluster_file::IsToken(options_.token)) return options_.token;
  return Status(StatusCode::kInvalidArgument, "TIDEPOOL_TOKEN is not a job token",
                "a token is 64 hexadecimal digits");
}

Status Node::JoinCluster() {
  auto token = TokenToJoin();
  if (!token.ok()) return token.status();
  token_ = *token;
  state_.peers.SetToken(*token);
  authenticator_.SetToken(*std::move(token));
  if (by_election()) return ServeElected();
  auto finder =
      std::make_unique<FinderByMap>(&state_.peers, [this] { return CoordinatorAddresses(); });
  return JoinWith(std::make_unique<RemoteLink>(&state_.peers, std::move(finder)));
}

Status Node::JoinWith(std::unique_ptr<CoordinatorLink> link) {
  link_ = std::move(link);
  MemberCallbacks callbacks;
  callbacks.install = [this](placement::PlacementMapPtr map, NodeId self) {
    return InstallMap(std::move(map), self);
  };
  callbacks.progress = [this] { return cores_->Progress(); };
  callbacks.fenced = [this](const Status& why) { stop_.Request({.failure = why}); };
  if (session_ != nullptr) {
    callbacks.answered = [this](std::uint64_t sent_ns) { session_->OnAnswered(sent_ns); };
  }
  member_ = std::make_unique<Member>(link_.get(), &lease_, &state_.map, std::move(callbacks));
  stop_.SetHook([this] { member_->Interrupt(); });
  const std::string cluster = by_election()             ? state_uuid_
                              : part_.file.has_value()  ? part_.file->cluster_uuid
                              : coordinator_ != nullptr ? coordinator_->cluster_uuid()
                                                        : "";
  auto self = member_->Join(MakeJoinRequest(cluster), Deadline::AfterMs(options_.join_timeout_ms));
  stop_.SetHook({});
  if (!self.ok()) return self.status();
  const std::string joined = state_.map.Get()->cluster_uuid;
  TP_RETURN_IF_ERROR(identity_->RememberJoin(joined));
  if (volume_ != nullptr) {
    const auto cluster_uuid = storage::ParseUuid(joined);
    if (!cluster_uuid.ok()) return cluster_uuid.status();
    TP_RETURN_IF_ERROR(volume_->RememberCluster(*cluster_uuid));
  }
  host_->ShowCluster(joined);
  state_.member.store(member_.get());
  TP_RETURN_IF_ERROR(member_->Start());
  TP_RETURN_IF_ERROR(splitter_.Start());
  log::Info("joined cluster " + joined + " as node " + std::to_string(self->value()) + " at " +
            host_->address() + "; data path " + cores_->Describe());
  return OkStatus();
}

Status Node::InstallMap(placement::PlacementMapPtr map, NodeId self) {
  NumberCoordinator(*map);
  const Status saved = catalog_.has_value() ? catalog_->Save(*map, self) : OkStatus();
  if (!saved.ok()) log::Error("durable partitions are not served: " + saved.ToString());
  return cores_->InstallMap(std::move(map), self, Deadline::AfterMs(kInstallMs), saved.ok());
}

// Waits for one heartbeat. Returns false when the coordinator's thread must end. Until the
// connection file names all nodes, the file follows each newer map within kFormingMs: `kvctl start`
// waits for the last node to appear in the file, and a look per heartbeat made three nodes take 1.1
// s.
bool Node::CoordinatorWaits() {
  const Deadline heartbeat = Deadline::AfterMs(options_.heartbeat_ms);
  while (published_.has_value() &&
         published_->content().nodes.size() < published_->content().nodes_expected) {
    const std::uint64_t pause_ms = std::min(kFormingMs, heartbeat.LeftMs());
    if (coordinator_stop_.WaitUntil(Deadline::AfterMs(pause_ms))) return false;
    if (heartbeat.Passed()) return true;
    // UpdateFile reads the file, which may lie on a file system that all nodes share.
    if (coordinator_->map().Get()->epoch != file_epoch_) UpdateFile();
  }
  return !coordinator_stop_.WaitUntil(heartbeat);
}

void Node::RunCoordinator() {
  while (CoordinatorWaits()) {
    coordinator_->Tick();
    UpdateFile();
  }
}

void Node::UpdateFile() {
  const placement::PlacementMapPtr map = coordinator_->map().Get();
  if (file_path_.empty()) return;
  // Somebody has cut it off or written over it: a live cluster would not be found any more.
  const bool is_damaged = published_.has_value() &&
                          cluster_file::Read(file_path_).code() == StatusCode::kInvalidArgument;
  if (is_damaged) log::Warn("the connection file '" + file_path_ + "' is damaged: written again");
  if (map->epoch == file_epoch_ && !MustLookAtFile() && !is_damaged) return;
  file_epoch_ = map->epoch;
  const cluster_file::ClusterFile file = MakeClusterFile(*map);
  if (published_.has_value() && file == published_->content() && !by_election() && !is_damaged) {
    return;
  }
  Status updated;
  if (!published_.has_value()) {
    updated = PublishFile(/*is_new=*/false);
  } else if (const auto standing = cluster_file::Read(file_path_);
             by_election() && standing.code() == StatusCode::kNotFound) {
    // A former coordinator that was paused while the others left has taken it away.
    updated = WriteSecrets(map->cluster_uuid, token_);
    if (updated.ok()) updated = PublishFile(/*is_new=*/false);
  } else if (!standing.ok() || !(*standing == file)) {
    updated = published_->Update(file);
  }
  if (!updated.ok()) log::Error("the connection file is out of date: " + updated.ToString());
}

// The cluster ends with its last node, or when all were asked to stop: nobody is left to take the
// file away for one that is dead. If the user chose where its state lies, it can go on from there;
// otherwise the next start is a new cluster.
void Node::EndCoordinator(bool whole_cluster) {
  coordinator_->map().Close();
  const placement::PlacementMapPtr map = coordinator_->map().Get();
  const bool all_left = std::all_of(
      map->nodes.begin(), map->nodes.end(),
      [](const placement::Node& node) { return node.state == placement::NodeState::kLeft; });
  if (!all_left && !whole_cluster) return;
  // Another one is the coordinator by now, and the file is its own.
  if (by_election() && session_->election() != tenure_) return;
  if (published_.has_value()) published_->Remove();
  if (data_dir_given_) return;
  const Status retired = store_->Retire();
  if (!retired.ok()) log::Warn("the state of the ended cluster stays: " + retired.ToString());
}

}  // namespace tidepool::daemon
