// A node's part in its cluster: begins the cluster or joins it, and follows its maps.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "daemon/node/node.h"
#include "proto/base/log.h"
#include "proto/cluster_file/job_token.h"
#include "proto/convert/login.h"

namespace tidepool::daemon {
namespace {

constexpr std::uint64_t kInstallMs = 5000;
constexpr std::uint64_t kLoginMs = 2000;
constexpr std::uint64_t kLoginAgainMs = 200;

// Returns JoinRequest.nvm_medium.
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

v1::JoinRequest Node::MakeJoinRequest(const std::string& cluster_uuid) {
  const Identity& identity = bootstrap_.identity();
  const storage::Volume* const volume = bootstrap_.volume();
  const std::optional<NodeCatalog>& catalog = bootstrap_.catalog();
  v1::JoinRequest request;
  request.set_cluster_uuid(cluster_uuid);
  request.set_uuid(identity.uuid());
  request.set_incarnation(identity.incarnation());
  request.set_control_address(state_.control_address);
  request.set_host(identity.host());
  request.set_cores(options_.cores);
  request.set_version(TIDEPOOL_VERSION);
  request.set_store(options_.store);
  request.set_pid(static_cast<std::uint32_t>(getpid()));
  request.set_directory(identity.folder());
  request.set_directory_device(identity.device());
  request.set_directory_inode(identity.inode());
  request.set_mark(identity.mark());
  request.set_mark_before(identity.mark_before());
  request.set_adopt(options_.adopt);
  request.set_nvm(volume != nullptr);
  request.set_nvm_medium(MediumOf(volume));
  if (!catalog.has_value()) return request;
  request.set_kept_cluster_uuid(catalog->cluster_uuid());
  bool stopped_cleanly = true;
  for (std::size_t i = 0; i < volume->device_count(); ++i) {
    stopped_cleanly = stopped_cleanly && volume->found(i).clean_stop;
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

void Node::UseToken(const std::string& token) {
  token_ = token;
  state_.peers.SetToken(token);
  services_.authenticator().SetToken(token);
  file_->SetToken(token);
}

Status Node::BeginCluster() {
  Part& part = bootstrap_.part();
  TP_RETURN_IF_ERROR(election_->Open(bootstrap_.TakeStore(), bootstrap_.election()));
  Coordinator& coordinator = *election_->coordinator();
  const std::string& cluster = coordinator.cluster_uuid();
  auto token = bootstrap_.TokenOfCluster();
  if (!token.ok()) return token.status();
  file_->SetToken(*token);
  TP_RETURN_IF_ERROR(file_->WriteSecrets(cluster));
  // Comes before the state names this node. If the daemon ends in between, its next start knows
  // that the cluster is its own, although no file says it.
  if (bootstrap_.by_election()) {
    TP_RETURN_IF_ERROR(bootstrap_.identity().RememberCluster(cluster));
  }
  auto joined = coordinator.Join(MakeJoinRequest(cluster), /*is_own=*/true);
  if (!joined.ok()) return joined.status();
  services_.host().ShowCluster(cluster);
  // Before the file: a client that reads it calls with the token that it names.
  UseToken(*token);
  const bool is_new = part.kind == Part::Kind::kFirst;
  const Status published = file_->Publish(*coordinator.map().Get(), is_new);
  if (!published.ok()) {
    file_->RemoveSecrets();
    TP_RETURN_IF_ERROR(election_->Abandon(/*retire=*/is_new));
    return published;
  }
  part.start_lock = UniqueFd();
  election_->Serve();
  if (bootstrap_.by_election()) return ServeElected();
  TP_RETURN_IF_ERROR(JoinWith(std::make_unique<LocalLink>(&coordinator), cluster));
  return election_->Start();
}

// A returning member is a candidate at once: its coordinator may die, or may be dead with all
// nodes.
Status Node::ServeElected() {
  Coordinator* const own = election_->coordinator();
  const std::string cluster = own != nullptr ? own->cluster_uuid() : bootstrap_.state_uuid();
  auto link = election_->MakeLink();
  TP_RETURN_IF_ERROR(election_->StartElections(cluster, bootstrap_.part().is_member));
  TP_RETURN_IF_ERROR(JoinWith(std::move(link), cluster));
  TP_RETURN_IF_ERROR(bootstrap_.KeepSecrets(token_));
  bootstrap_.session()->MarkJoined(Deadline::AfterMs(EtcdCallMs(options_.lease_ms)));
  election_->SetCandidate(true);
  return OkStatus();
}

std::vector<std::string> Node::CoordinatorAddresses() {
  const std::optional<cluster_file::ClusterFile>& joined = bootstrap_.part().file;
  std::vector<std::string> addresses;
  const auto add = [&addresses](const std::string& address) {
    const bool is_known = std::find(addresses.begin(), addresses.end(), address) != addresses.end();
    if (!is_known && address != "") addresses.push_back(address);
  };
  if (!file_->path().empty()) {
    // The file is read again: the coordinator may have come back at another address.
    auto file = cluster_file::Read(file_->path());
    if (file.ok() && joined.has_value() && file->cluster_uuid == joined->cluster_uuid) {
      add(file->nodes[file->coordinator].control_address);
      for (const auto& node : file->nodes) add(node.control_address);
    }
  }
  if (EtcdSession* session = bootstrap_.session(); session != nullptr) {
    const auto elected = session->Elected(Deadline::AfterMs(EtcdCallMs(options_.lease_ms)));
    if (elected.ok() && elected->has_value()) add((*elected)->address);
  }
  add(options_.join);
  if (const placement::PlacementMapPtr map = state_.map.Get(); map != nullptr) {
    for (const placement::Node& node : map->nodes) add(node.control_address);
  }
  std::erase(addresses, state_.control_address);
  return addresses;
}

// Asks until a node answers: the coordinator may be on its way back.
Result<std::string> Node::TokenByMunge() {
  const Deadline deadline = Deadline::AfterMs(options_.join_timeout_ms);
  while (!stop_.requested()) {
    const std::vector<std::string> addresses = CoordinatorAddresses();
    auto token = convert::LogInAtAny(addresses, bootstrap_.security(), options_.munge_socket,
                                     Deadline::AfterMs(kLoginMs * addresses.size()));
    const bool is_silent =
        token.code() == StatusCode::kUnavailable || token.code() == StatusCode::kDeadlineExceeded;
    if (token.ok() || !is_silent || deadline.Passed()) return token;
    stop_.WaitUntil(Deadline::AfterMs(kLoginAgainMs));
  }
  return Status(StatusCode::kCancelled, "stopped while starting");
}

Result<std::string> Node::TokenToJoin() {
  const std::optional<cluster_file::ClusterFile>& file = bootstrap_.part().file;
  if (file.has_value() && file->munge != (options_.auth == kAuthMunge)) {
    return Status(StatusCode::kFailedPrecondition,
                  "cluster " + file->cluster_uuid + " was begun with --auth " +
                      std::string(file->munge ? kAuthMunge : kAuthToken),
                  "start this daemon with the same");
  }
  if (options_.auth == kAuthMunge) return TokenByMunge();
  if (file.has_value()) return cluster_file::ReadTokenFile(file->token_file);
  if (bootstrap_.by_election() && options_.join.empty()) {
    return cluster_file::ReadTokenFile(bootstrap_.identity().folder() + "/token");
  }
  if (options_.token.empty()) return cluster_file::ReadTokenFile(options_.token_file);
  if (cluster_file::IsToken(options_.token)) return options_.token;
  return Status(StatusCode::kInvalidArgument, "TIDEPOOL_TOKEN is not a job token",
                "a token is 64 hexadecimal digits");
}

Status Node::JoinCluster() {
  auto token = TokenToJoin();
  if (!token.ok()) return token.status();
  UseToken(*token);
  if (bootstrap_.by_election()) return ServeElected();
  auto finder =
      std::make_unique<FinderByMap>(&state_.peers, [this] { return CoordinatorAddresses(); });
  const auto& file = bootstrap_.part().file;
  return JoinWith(std::make_unique<RemoteLink>(&state_.peers, std::move(finder)),
                  file.has_value() ? file->cluster_uuid : "");
}

Status Node::JoinWith(std::unique_ptr<CoordinatorLink> link, const std::string& cluster) {
  link_ = std::move(link);
  MemberCallbacks callbacks;
  callbacks.install = [this](placement::PlacementMapPtr map, NodeId self) {
    return InstallMap(std::move(map), self);
  };
  callbacks.progress = [this] { return cores_->Progress(); };
  callbacks.fenced = [this](const Status& why) { stop_.Request({.failure = why}); };
  if (EtcdSession* session = bootstrap_.session(); session != nullptr) {
    callbacks.answered = [session](std::uint64_t sent_ns) { session->OnAnswered(sent_ns); };
  }
  member_ = std::make_unique<Member>(link_.get(), &lease_, &state_.map, std::move(callbacks));
  stop_.SetHook([this] { member_->Interrupt(); });
  auto self = member_->Join(MakeJoinRequest(cluster), Deadline::AfterMs(options_.join_timeout_ms));
  stop_.SetHook({});
  if (!self.ok()) return self.status();
  const std::string joined = state_.map.Get()->cluster_uuid;
  TP_RETURN_IF_ERROR(bootstrap_.identity().RememberJoin(joined));
  if (storage::Volume* volume = bootstrap_.volume(); volume != nullptr) {
    const auto cluster_uuid = storage::ParseUuid(joined);
    if (!cluster_uuid.ok()) return cluster_uuid.status();
    TP_RETURN_IF_ERROR(volume->RememberCluster(*cluster_uuid));
  }
  services_.host().ShowCluster(joined);
  state_.member.store(member_.get());
  TP_RETURN_IF_ERROR(member_->Start());
  TP_RETURN_IF_ERROR(services_.StartSplitter());
  TP_RETURN_IF_ERROR(services_.StartKeeper());
  log::Info("joined cluster " + joined + " as node " + std::to_string(self->value()) + " at " +
            state_.control_address + "; data path " + cores_->Describe());
  return OkStatus();
}

Status Node::InstallMap(placement::PlacementMapPtr map, NodeId self) {
  election_->NumberCoordinator(*map);
  std::optional<NodeCatalog>& catalog = bootstrap_.catalog();
  const Status saved = catalog.has_value() ? catalog->Save(*map, self) : OkStatus();
  if (!saved.ok()) log::Error("durable partitions are not served: " + saved.ToString());
  return cores_->InstallMap(std::move(map), self, Deadline::AfterMs(kInstallMs), saved.ok());
}

}  // namespace tidepool::daemon
