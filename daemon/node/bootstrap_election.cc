// Decides a node's part in a cluster whose state is in etcd: the node begins the cluster, joins it
// or comes back to it.
//
//   daemon/node/node -> [bootstrap] -> membership/etcd_session, etcd_store
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "daemon/config/split_list.h"
#include "daemon/membership/etcd_store.h"
#include "daemon/node/bootstrap.h"
#include "proto/base/log.h"
#include "proto/cluster_file/job_token.h"
#include "proto/convert/probe_cluster.h"

namespace tidepool::daemon {
namespace {

using cluster_file::Examination;
using cluster_file::Finding;

// Timeout of a question to etcd while a daemon starts, so that a signal is noticed between two.
constexpr std::uint64_t kAskMs = 1000;
constexpr std::uint64_t kDecideMs = 100;
constexpr std::size_t kPemBytesMax = 1 << 20;

Status RefuseElection(const std::string& what, const std::string& remedy) {
  return Status(StatusCode::kFailedPrecondition, what, remedy);
}

// All else may pass: etcd not reached, a lease that has run out meanwhile.
bool EndsElection(const Status& status) {
  switch (status.code()) {
    case StatusCode::kFailedPrecondition:
    case StatusCode::kInvalidArgument:
    case StatusCode::kPermissionDenied:
    case StatusCode::kUnauthenticated:
    case StatusCode::kDataLoss:
      return true;
    default:
      return false;
  }
}

Result<ChannelSecurity> SecurityOfEtcd(const Options& options) {
  ChannelSecurity security;
  if (!options.etcd_ca.empty()) {
    auto ca = cluster_file::ReadSmallFile(options.etcd_ca, kPemBytesMax);
    if (!ca.ok()) return ca.status();
    security.tls_ca = *std::move(ca);
  }
  if (!options.etcd_cert.empty()) {
    auto cert = cluster_file::ReadSmallFile(options.etcd_cert, kPemBytesMax);
    if (!cert.ok()) return cert.status();
    auto key = cluster_file::ReadSecretFile(options.etcd_key, kPemBytesMax);
    if (!key.ok()) return key.status();
    security.tls_cert = *std::move(cert);
    security.tls_key = *std::move(key);
  }
  return security;
}

// Returns a prefix that is equal for all daemons of a connection file, and differs between
// services.
std::string DefaultPrefix(const std::string& file_path) {
  std::error_code failed;
  const auto path = std::filesystem::absolute(file_path, failed).lexically_normal();
  return "/tidepool/" + std::to_string(geteuid()) + (failed ? "/" + file_path : path.string());
}

std::vector<std::string> UuidsOf(const ClusterState& state) {
  std::vector<std::string> uuids;
  for (const placement::Node& node : state.map.nodes) uuids.push_back(node.uuid);
  return uuids;
}

bool Contains(const ClusterState& state, const std::string& uuid) {
  const auto uuids = UuidsOf(state);
  return std::find(uuids.begin(), uuids.end(), uuid) != uuids.end();
}

}  // namespace

Status Bootstrap::OpenEtcd() {
  const std::string state_path =
      identity_->folder() + "/" + std::string(cluster_file::kCoordinatorStateName);
  if (access(state_path.c_str(), F_OK) == 0) {
    return RefuseElection("the data folder '" + identity_->folder() +
                              "' has the state of a cluster that was begun without etcd",
                          "start it without --store etcd, or give another --data-dir");
  }
  auto security = SecurityOfEtcd(options_);
  if (!security.ok()) return security.status();
  auto client = etcd::Client::Create(SplitList(options_.etcd), *security);
  if (!client.ok()) return client.status();
  etcd_ = *std::move(client);
  auto guard = LeaseGuard::Start(SplitList(options_.etcd), *security);
  if (guard.ok()) {
    guard_ = *std::move(guard);
  } else {
    log::Warn("a kill of this daemon will be noticed only when its lease runs out: " +
              guard.status().ToString());
  }
  EtcdSessionOptions options;
  options.prefix = options_.etcd_prefix.empty() ? DefaultPrefix(file_path_) : options_.etcd_prefix;
  options.uuid = identity_->uuid();
  options.incarnation = identity_->incarnation();
  options.lease_ms = options_.lease_ms;
  options.heartbeat_ms = options_.heartbeat_ms;
  options.fenced = [this](const Status& why) { stop_.Request({.failure = why}); };
  if (guard_ != nullptr) {
    options.watch_lease = [raw = guard_.get()](std::int64_t lease) { raw->Watch(lease); };
  }
  etcd_prefix_ = options.prefix;
  session_ = std::make_unique<EtcdSession>(etcd_.get(), &lease_, std::move(options));
  log::Info("the state of the cluster is in " + session_->Describe());
  return OkStatus();
}

Status Bootstrap::DecideByElection() {
  const Deadline deadline = Deadline::AfterMs(options_.join_timeout_ms);
  bool has_begun = false;
  Status waiting_for;
  while (!stop_.requested()) {
    if (!has_begun) {
      waiting_for = session_->Begin(Deadline::AfterMs(kAskMs));
      if (EndsElection(waiting_for)) return waiting_for;
      has_begun = waiting_for.ok();
    } else {
      auto part = TryToDecide();
      if (part.ok() && part->has_value()) {
        part_ = *std::move(*part);
        return OkStatus();
      }
      if (EndsElection(part.status())) return part.status();
      waiting_for = part.ok() ? Status(StatusCode::kUnavailable,
                                       "no coordinator serves " + session_->Describe())
                              : part.status();
    }
    if (deadline.Passed()) {
      return Status(StatusCode::kDeadlineExceeded,
                    "could not begin within " + std::to_string(options_.join_timeout_ms / 1000) +
                        " s: " + std::string(waiting_for.what()),
                    file_path_.empty()
                        ? "is etcd up, and a daemon of this cluster that may begin it?"
                        : "is etcd up, and '" + file_path_ +
                              "' on a file system that all nodes share? else give --join, a token "
                              "and --etcd-prefix");
    }
    stop_.WaitUntil(Deadline::AfterMs(kDecideMs));
  }
  return Status(StatusCode::kCancelled, "stopped while starting");
}

bool Bootstrap::KnowsSecretsOf(const std::string& cluster_uuid, const Examination& found) const {
  const bool by_file = found.file.has_value() && found.file->cluster_uuid == cluster_uuid;
  const bool are_kept = identity_->cluster_uuid() == cluster_uuid &&
                        cluster_file::ReadTokenFile(identity_->folder() + "/token").ok();
  return by_file || are_kept || !options_.join.empty();
}

// Returns kOk if this daemon has a place in the cluster of `state`, or may begin a cluster.
Status Bootstrap::CheckPlace(const std::optional<ClusterState>& state,
                             const Examination& found) const {
  const std::string uuid = state.has_value() ? state->map.cluster_uuid : "";
  if (found.finding == Finding::kLive && found.file->cluster_uuid != uuid) {
    return RefuseElection(
        "'" + file_path_ + "' is the connection file of cluster " + found.file->cluster_uuid +
            ", which is live and is not that of " + session_->Describe(),
        "use it, end it with kvctl stop, or give this daemon another --cluster file");
  }
  if (!state.has_value()) return OkStatus();
  if (options_.nodes_given && options_.nodes != state->map.nodes_expected) {
    return RefuseElection(
        session_->Describe() + " is a cluster of " + std::to_string(state->map.nodes_expected) +
            " nodes, not of " + std::to_string(options_.nodes),
        "give all its daemons the same --nodes, or another --etcd-prefix for a new "
        "cluster");
  }
  if (Contains(*state, identity_->uuid())) return OkStatus();
  if (state->nodes.size() < state->map.nodes_expected) return OkStatus();
  const std::string file = found.finding == Finding::kLive
                               ? "; '" + file_path_ + "' is its connection file, which is live"
                               : "";
  return RefuseElection(
      "the daemon " + identity_->uuid() + " is a stranger: cluster " + uuid + ", of " +
          session_->Describe() + ", has all its " + std::to_string(state->map.nodes_expected) +
          " nodes" + file,
      "a node that comes back must use the data folder that it had; for another service "
      "give another --cluster file or --etcd-prefix; if it has ended for good: etcdctl "
      "del --prefix " +
          etcd_prefix_ + "/");
}

// Nothing where this daemon must wait for another to act.
Result<std::optional<Part>> Bootstrap::TryToDecide() {
  // In this order: a coordinator saves its state, writes the file, and then says where it serves.
  const auto elected = session_->Elected(Deadline::AfterMs(kAskMs));
  if (!elected.ok()) return elected.status();
  Examination found;
  if (!file_path_.empty()) {
    auto examined =
        cluster_file::Examine(file_path_, cluster_file::JobId(environment_), convert::ProbeCluster);
    if (!examined.ok()) return examined.status();
    found = *std::move(examined);
  }
  EtcdStore store(etcd_.get(), etcd_prefix_, 0, options_.lease_ms);
  auto state = store.Load();
  if (!state.ok()) return state.status();
  TP_RETURN_IF_ERROR(CheckPlace(*state, found));
  state_uuid_ = state->has_value() ? (*state)->map.cluster_uuid : "";
  nodes_of_state_ = state->has_value() ? (*state)->map.nodes_expected : 0;
  members_ = state->has_value() ? UuidsOf(**state) : std::vector<std::string>();
  if (!elected->has_value()) return TryToBegin(*state, found);
  if ((*elected)->uuid == identity_->uuid()) {
    // The elected process is an earlier process of this node, which is gone: the lock on the folder
    // proves it. Or it is this process, which did not receive the answer.
    TP_RETURN_IF_ERROR(session_->Dismiss(**elected, Deadline::AfterMs(kAskMs)));
    return std::optional<Part>();
  }
  // A member that knows the token need not wait for a coordinator that is still starting.
  const bool is_served = !(*elected)->address.empty();
  const bool is_member = state->has_value() && Contains(**state, identity_->uuid());
  if (!state->has_value() || !(is_member || is_served) || !KnowsSecretsOf(state_uuid_, found)) {
    return std::optional<Part>();
  }
  Part part;
  part.kind = Part::Kind::kJoin;
  part.is_member = is_member;
  if (found.file.has_value() && found.file->cluster_uuid == state_uuid_) part.file = found.file;
  return std::optional<Part>(std::move(part));
}

// No node is elected.
Result<std::optional<Part>> Bootstrap::TryToBegin(const std::optional<ClusterState>& state,
                                                  const Examination& found) {
  const bool is_new = !state.has_value();
  if (is_new && !options_.join.empty()) return std::optional<Part>();
  if (is_new && catalog_.has_value() && !catalog_->found().empty()) {
    return RefuseElection("this node keeps durable data of cluster " + catalog_->cluster_uuid() +
                              ", of which there is nothing in " + session_->Describe(),
                          "give the --etcd and --etcd-prefix that it had, or an empty --nvm-dir");
  }
  Part part;
  if (found.file.has_value() && found.file->cluster_uuid == state_uuid_) part.file = found.file;
  if (!is_new) {
    if (!Contains(*state, identity_->uuid()) || !KnowsSecretsOf(state_uuid_, found)) {
      return std::optional<Part>();
    }
    part.kind = Part::Kind::kJoin;
    part.is_member = true;
    auto others = session_->OthersHaveJoined(members_, Deadline::AfterMs(kAskMs));
    if (!others.ok()) return others.status();
    // Another node will be elected soon.
    if (*others) return std::optional<Part>(std::move(part));
  }
  const auto elected = session_->Campaign(Deadline::AfterMs(kAskMs));
  if (!elected.ok()) return elected.status();
  const std::int64_t election = session_->election();
  if (election == 0) return std::optional<Part>();
  auto store = std::make_unique<EtcdStore>(etcd_.get(), etcd_prefix_, election, options_.lease_ms);
  const auto again = store->Load();
  const std::string uuid =
      again.ok() && again->has_value() ? (*again)->map.cluster_uuid : std::string();
  if (!again.ok() || uuid != state_uuid_) {
    session_->Resign(Deadline::AfterMs(kAskMs));  // Another was coordinator in between: look again.
    return std::optional<Part>();
  }
  if (found.file.has_value() && found.file->cluster_uuid != state_uuid_) {
    log::Info("'" + file_path_ + "' is stale: moved aside");
    TP_RETURN_IF_ERROR(cluster_file::MoveAside(file_path_, *found.file));
  }
  store_ = std::move(store);
  election_ = election;
  part.kind = is_new ? Part::Kind::kFirst : Part::Kind::kReturn;
  return std::optional<Part>(std::move(part));
}

}  // namespace tidepool::daemon
