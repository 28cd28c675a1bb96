#include "daemon/node/election_loop.h"

#include <algorithm>
#include <utility>

#include "daemon/membership/etcd_store.h"
#include "proto/base/check.h"
#include "proto/base/log.h"
#include "proto/base/thread.h"

namespace tidepool::daemon {
namespace {

constexpr std::uint64_t kResignMs = 1000;
constexpr std::uint64_t kFormingMs = 10;
// Longer than calls take. A call may still use a younger former tenure.
constexpr std::uint64_t kFormerTenureMs = 3'600'000;

}  // namespace

ElectionLoop::ElectionLoop(NodeState* state, ConnectionFile* file, ElectionContext context)
    : state_(*state), options_(state->options), file_(*file), election_(std::move(context)) {
  if (by_election()) state_.coordinator_node = NodeState::kNoNode;
}

ElectionLoop::~ElectionLoop() {
  Stop();
  Close();
}

CoordinatorOptions ElectionLoop::MakeCoordinatorOptions() const {
  CoordinatorOptions options;
  options.nodes_expected = options_.nodes;
  options.nodes_given = options_.nodes_given;
  options.lease_ms = options_.lease_ms;
  options.heartbeat_ms = options_.heartbeat_ms;
  options.store = options_.store;
  return options;
}

Status ElectionLoop::Open(std::unique_ptr<ClusterStore> store, std::int64_t election) {
  TP_CHECK(store != nullptr && coordinator_ == nullptr && store_ == nullptr);
  TP_CHECK((election != 0) == by_election());
  auto coordinator = Coordinator::Open(store.get(), MakeCoordinatorOptions());
  if (!coordinator.ok()) return coordinator.status();
  store_ = std::move(store);
  coordinator_ = *std::move(coordinator);
  tenure_ = election;
  return OkStatus();
}

Status ElectionLoop::Abandon(bool retire) {
  TP_CHECK(coordinator_ != nullptr && !thread_.joinable());
  TP_CHECK(state_.coordinator.load() == nullptr);  // No service has seen it.
  if (retire) TP_RETURN_IF_ERROR(store_->Retire());
  coordinator_.reset();
  store_.reset();
  tenure_ = 0;
  return OkStatus();
}

void ElectionLoop::Serve() {
  TP_CHECK(coordinator_ != nullptr);
  state_.coordinator.store(coordinator_.get());
}

Status ElectionLoop::Start() {
  TP_CHECK(!by_election() && coordinator_ != nullptr && !thread_.joinable());
  return StartThread("the coordinator", &thread_, [this] { RunCoordinator(); });
}

std::unique_ptr<CoordinatorLink> ElectionLoop::MakeLink() {
  TP_CHECK(by_election() && link_ == nullptr);
  auto finder = std::make_unique<ElectionFinder>(election_.session);
  finder_ = finder.get();
  auto link = std::make_unique<ElectedLink>([this] { return state_.ActingCoordinator(); },
                                            &state_.peers, std::move(finder));
  link_ = link.get();
  return link;
}

Status ElectionLoop::StartElections(const std::string& cluster_uuid, bool may_be_elected) {
  TP_CHECK(link_ != nullptr && !thread_.joinable());
  cluster_uuid_ = cluster_uuid;
  if (coordinator_ != nullptr) Announce();
  may_be_elected_ = may_be_elected;
  LookAtElection();
  return StartThread("elections", &thread_, [this] { RunElections(); });
}

void ElectionLoop::NumberCoordinator(const placement::PlacementMap& map) {
  if (finder_ != nullptr) state_.coordinator_node = finder_->NodeIn(map);
}

// Waits for one heartbeat. Returns false when the thread must end. Until the connection file names
// all nodes, the file follows each newer map within kFormingMs: `kvctl start` waits for the last
// node to appear in the file, and a look per heartbeat made three nodes take 1.1 s.
bool ElectionLoop::WaitForTurn() {
  const Deadline heartbeat = Deadline::AfterMs(options_.heartbeat_ms);
  while (file_.IsForming()) {
    const std::uint64_t pause_ms = std::min(kFormingMs, heartbeat.LeftMs());
    if (stop_.WaitUntil(Deadline::AfterMs(pause_ms))) return false;
    if (heartbeat.Passed()) return true;
    // Follow reads the file, which may lie on a file system that all nodes share.
    const placement::PlacementMapPtr map = coordinator_->map().Get();
    if (map->epoch != file_.followed()) file_.Follow(*map);
  }
  return !stop_.WaitUntil(heartbeat);
}

void ElectionLoop::RunCoordinator() {
  while (WaitForTurn()) {
    coordinator_->Tick();
    file_.Follow(*coordinator_->map().Get());
  }
}

void ElectionLoop::OnElected(const std::optional<ElectedNode>& elected) {
  const bool is_new = finder_->OnElected(elected);
  if (const auto map = state_.map.Get(); map != nullptr) NumberCoordinator(*map);
  if (!is_new) return;
  link_->OnElected();
  if (elected.has_value()) {
    log::Info("the coordinator by election " + std::to_string(elected->revision) + " is node " +
              elected->uuid);
  } else {
    log::Warn("there is no coordinator: create, drop and join wait for the next one");
  }
}

// A joined node serves already, and has its data in memory: a node that comes back leaves the
// election to it.
bool ElectionLoop::IsFirstChoice(Deadline deadline) {
  if (state_.joined()) return true;
  const auto others = election_.session->OthersHaveJoined(election_.members, deadline);
  return others.ok() && !*others;
}

void ElectionLoop::LookAtElection() {
  const Deadline deadline = Deadline::AfterMs(EtcdCallMs(options_.lease_ms) / 3);
  auto elected = election_.session->Follow(deadline);
  if (elected.ok() && !elected->has_value() && may_be_elected_) {
    OnElected(*elected);
    if (IsFirstChoice(deadline)) elected = election_.session->Campaign(deadline);
  }
  // While etcd does not answer, the last answer holds.
  if (elected.ok()) OnElected(*elected);
}

void ElectionLoop::RunElections() {
  while (WaitForTurn()) {
    LookAtElection();
    LeadOrFollow();
    if (coordinator_ == nullptr) continue;
    coordinator_->Tick();
    file_.Follow(*coordinator_->map().Get());
    if (!is_announced_) Announce();
  }
}

void ElectionLoop::LeadOrFollow() {
  const std::int64_t election = election_.session->election();
  if (coordinator_ != nullptr) {
    const bool must_reload = store_->must_reload();
    if (election == tenure_ && !must_reload) return;
    log::Warn(must_reload ? "the coordinator begins anew from what is saved"
                          : "this node is not the coordinator any more");
    StepDown();
  }
  if (election == 0) return;
  const Status become = BecomeCoordinator(election);
  if (become.ok()) return;
  log::Error("this node is elected and cannot be the coordinator: " + become.ToString());
  election_.session->Resign(Deadline::AfterMs(kResignMs));
}

Status ElectionLoop::BecomeCoordinator(std::int64_t election) {
  TP_CHECK(election != 0 && coordinator_ == nullptr && store_ == nullptr);
  auto store =
      std::make_unique<EtcdStore>(election_.etcd, election_.prefix, election, options_.lease_ms);
  auto coordinator = Coordinator::Open(store.get(), MakeCoordinatorOptions());
  if (!coordinator.ok()) return coordinator.status();
  if ((*coordinator)->cluster_uuid() != cluster_uuid_) {
    return Status(
        StatusCode::kFailedPrecondition,
        "the state of cluster " + cluster_uuid_ + " is gone from " + election_.session->Describe(),
        "restore etcd from a snapshot, or start the cluster anew");
  }
  store_ = std::move(store);
  coordinator_ = *std::move(coordinator);
  tenure_ = election;
  is_announced_ = false;
  const Status secrets = file_.WriteSecrets(cluster_uuid_);
  if (!secrets.ok()) log::Error("programs may not find the cluster: " + secrets.ToString());
  file_.Release();
  file_.Follow(*coordinator_->map().Get());
  Serve();
  log::Info("this node is the coordinator, by election " + std::to_string(election));
  Announce();
  return OkStatus();
}

void ElectionLoop::StepDown() {
  TP_CHECK(coordinator_ != nullptr && store_ != nullptr);
  state_.coordinator.store(nullptr);
  Close();
  file_.Release();
  const std::uint64_t now_ns = Clock::Real().MonotonicNs();
  std::erase_if(former_tenures_, [now_ns](const FormerTenure& former) {
    return now_ns - former.ended_ns > kFormerTenureMs * 1'000'000;
  });
  former_tenures_.push_back({std::move(store_), std::move(coordinator_), now_ns});
  tenure_ = 0;
}

void ElectionLoop::Announce() {
  const Status announced = election_.session->Announce(
      state_.control_address, Deadline::AfterMs(EtcdCallMs(options_.lease_ms) / 3));
  is_announced_ = announced.ok();
  if (!announced.ok()) {
    log::Warn("etcd does not say yet where the coordinator serves: " + announced.ToString());
  }
}

void ElectionLoop::Stop() {
  may_be_elected_ = false;
  stop_.Request({});
  if (thread_.joinable()) thread_.join();
}

void ElectionLoop::Close() {
  if (coordinator_ != nullptr) coordinator_->map().Close();
}

// The cluster ends with its last node, or when all were asked to stop: no node is left to take the
// file away for a dead node. If the user chose where the state lies, the cluster can go on from
// there; otherwise the next start is a new cluster.
void ElectionLoop::End(bool whole_cluster, bool keep_state) {
  TP_CHECK(!thread_.joinable());
  if (coordinator_ == nullptr) return;
  Close();
  const placement::PlacementMapPtr map = coordinator_->map().Get();
  const bool all_left = std::all_of(
      map->nodes.begin(), map->nodes.end(),
      [](const placement::Node& node) { return node.state == placement::NodeState::kLeft; });
  if (!all_left && !whole_cluster) return;
  // Another node is the coordinator by now, and the file is its own.
  if (by_election() && election_.session->election() != tenure_) return;
  file_.Remove();
  if (keep_state) return;
  const Status retired = store_->Retire();
  if (!retired.ok()) log::Warn("the state of the ended cluster stays: " + retired.ToString());
}

}  // namespace tidepool::daemon
