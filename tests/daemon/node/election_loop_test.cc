#include "daemon/node/election_loop.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "daemon/membership/embedded_store.h"
#include "proto/cluster_file/job_token.h"
#include "tests/daemon/membership/coordinator_fixture.h"
#include "tests/integration/harness.h"

namespace tidepool::daemon {
namespace {

using testing::TemporaryFolder;

constexpr std::uint64_t kPatienceMs = 20'000;

// Waits until `condition` holds. Returns false if it does not within the patience.
bool Await(const std::function<bool()>& condition) {
  const Deadline deadline = Deadline::AfterMs(kPatienceMs);
  const StopSignal never;
  while (!condition() && !deadline.Passed()) never.WaitUntil(Deadline::AfterMs(5));
  return condition();
}

Options OptionsOf(std::uint32_t nodes, const std::string& store) {
  Options options;
  options.nodes = nodes;
  options.nodes_given = true;
  options.store = store;
  options.heartbeat_ms = 20;
  options.lease_ms = 60'000;
  return options;
}

ConnectionFileOptions FileOf(const std::string& path, int node, bool by_election = false) {
  ConnectionFileOptions options;
  options.path = path;
  options.node_uuid = CoordinatorFixture::UuidOf(node);
  options.by_election = by_election;
  return options;
}

// A node that is the coordinator of an embedded cluster of two.
struct LoopFixture {
  LoopFixture()
      : state(OptionsOf(2, "embedded")),
        file(FileOf(folder.path() + "/cluster.json", 1)),
        loop(&state, &file, {}) {
    file.SetToken(cluster_file::MakeToken());
  }
  void Open() {
    const Status opened = loop.Open(std::make_unique<EmbeddedStore>(folder.path()), 0);
    INFO(opened.ToString());
    REQUIRE(opened.ok());
  }
  void Join(int node) {
    auto request = CoordinatorFixture::RequestOf(node);
    request.set_store("embedded");
    const auto joined = loop.coordinator()->Join(request, /*is_own=*/node == 1);
    INFO(joined.status().ToString());
    REQUIRE(joined.ok());
  }
  void Publish() {
    REQUIRE(file.WriteSecrets(loop.coordinator()->cluster_uuid()).ok());
    REQUIRE(file.Publish(*loop.coordinator()->map().Get(), /*is_new=*/true).ok());
  }
  std::size_t NodesInFile() const {
    const auto read = cluster_file::Read(folder.path() + "/cluster.json");
    return read.ok() ? read->nodes.size() : 0;
  }

  TemporaryFolder folder;
  NodeState state;
  ConnectionFile file;
  ElectionLoop loop;
};

TEST_CASE("ACoordinatorIsSeenByTheServicesOnlyFromServeOn") {
  LoopFixture node;
  CHECK(node.loop.coordinator() == nullptr);
  node.Open();
  REQUIRE(node.loop.coordinator() != nullptr);
  CHECK(node.state.coordinator.load() == nullptr);
  node.loop.Serve();
  CHECK(node.state.coordinator.load() == node.loop.coordinator());
  CHECK(node.loop.tenure() == 0);
}

TEST_CASE("AnAbandonedNewClusterLeavesNoState") {
  LoopFixture node;
  node.Open();
  node.Join(1);
  REQUIRE(std::filesystem::exists(node.folder.path() + "/cluster-state"));
  REQUIRE(node.loop.Abandon(/*retire=*/true).ok());
  CHECK(node.loop.coordinator() == nullptr);
  CHECK_FALSE(std::filesystem::exists(node.folder.path() + "/cluster-state"));
  node.Open();  // A later start decides anew.
  CHECK(node.loop.coordinator() != nullptr);
}

TEST_CASE("TheConnectionFileFollowsAFormingClusterAndEndsWithIt") {
  LoopFixture node;
  node.Open();
  node.Join(1);
  node.Publish();
  node.loop.Serve();
  REQUIRE(node.loop.Start().ok());
  node.Join(2);
  CHECK(Await([&node] { return node.NodesInFile() == 2; }));
  node.loop.Stop();
  node.loop.End(/*whole_cluster=*/false, /*keep_state=*/false);  // Its nodes have not left.
  CHECK(node.NodesInFile() == 2);
  node.loop.End(/*whole_cluster=*/true, /*keep_state=*/true);
  CHECK(node.NodesInFile() == 0);
  CHECK(std::filesystem::exists(node.folder.path() + "/cluster-state"));
  node.loop.End(/*whole_cluster=*/true, /*keep_state=*/false);
  CHECK_FALSE(std::filesystem::exists(node.folder.path() + "/cluster-state"));
}

// A node of a cluster over etcd, without cores and services.
struct ElectedNodeFixture {
  ElectedNodeFixture(EtcdPlace& place, int number, std::string file_path)
      : session(place.NewSession(&lease, CoordinatorFixture::UuidOf(number))),
        state(OptionsOf(1, "etcd")),
        file(FileOf(file_path, number, /*by_election=*/true)),
        loop(&state, &file,
             {session.get(),
              &place.client(),
              place.prefix(),
              {CoordinatorFixture::UuidOf(1), CoordinatorFixture::UuidOf(2)}}) {
    state.control_address = "127.0.0.1:" + std::to_string(1000 + number);
    state.session = session.get();
    file.SetToken(cluster_file::MakeToken());
    const Status begun = session->Begin(EtcdPatience());
    INFO(begun.ToString());
    REQUIRE(begun.ok());
  }
  bool AwaitLead(bool leads) const {
    return Await([this, leads] { return (state.coordinator.load() != nullptr) == leads; });
  }

  Lease lease;
  std::unique_ptr<EtcdSession> session;
  NodeState state;
  ConnectionFile file;
  std::unique_ptr<CoordinatorLink> link;  // Outlives the loop, which reports elections to it.
  ElectionLoop loop;
};

TEST_CASE("TheNextElectedNodeTakesOverStateAndFileWhenTheCoordinatorEnds") {
  EtcdPlace place;
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/cluster.json";
  std::string cluster;
  ElectedNodeFixture second(place, 2, path);
  {
    ElectedNodeFixture first(place, 1, path);
    REQUIRE(first.session->Campaign(EtcdPatience()).ok());
    const std::int64_t election = first.session->election();
    REQUIRE(election != 0);
    REQUIRE(first.loop.Open(place.OpenFor(election), election).ok());
    CHECK(first.loop.tenure() == election);
    auto request = CoordinatorFixture::RequestOf(1);
    request.set_store("etcd");
    REQUIRE(first.loop.coordinator()->Join(request, /*is_own=*/true).ok());
    cluster = first.loop.coordinator()->cluster_uuid();
    REQUIRE(first.file.WriteSecrets(cluster).ok());
    REQUIRE(first.file.Publish(*first.loop.coordinator()->map().Get(), /*is_new=*/true).ok());
    first.loop.Serve();
    first.link = first.loop.MakeLink();
    REQUIRE(first.loop.StartElections(cluster, /*may_be_elected=*/true).ok());

    second.link = second.loop.MakeLink();
    REQUIRE(second.loop.StartElections(cluster, /*may_be_elected=*/true).ok());
    CHECK(second.loop.coordinator() == nullptr);
    first.loop.Stop();
    first.file.Release();
    first.session->End(EtcdPatience());
  }
  CHECK(second.AwaitLead(true));
  second.loop.Stop();
  REQUIRE(second.loop.coordinator() != nullptr);
  CHECK(second.loop.tenure() == second.session->election());
  CHECK(second.loop.coordinator()->cluster_uuid() == cluster);
  CHECK(second.file.is_published());
}

TEST_CASE("ANodeThatHasLostItsElectionStepsDown") {
  EtcdPlace place;
  const TemporaryFolder folder;
  ElectedNodeFixture node(place, 1, folder.path() + "/cluster.json");
  REQUIRE(node.session->Campaign(EtcdPatience()).ok());
  const std::int64_t election = node.session->election();
  REQUIRE(node.loop.Open(place.OpenFor(election), election).ok());
  auto request = CoordinatorFixture::RequestOf(1);
  request.set_store("etcd");
  REQUIRE(node.loop.coordinator()->Join(request, /*is_own=*/true).ok());
  const std::string cluster = node.loop.coordinator()->cluster_uuid();
  node.loop.Serve();
  node.link = node.loop.MakeLink();
  REQUIRE(node.loop.StartElections(cluster, /*may_be_elected=*/false).ok());
  REQUIRE(node.AwaitLead(true));
  node.session->Resign(EtcdPatience());
  CHECK(node.AwaitLead(false));
  node.loop.Stop();
  CHECK(node.loop.coordinator() == nullptr);
  CHECK(node.loop.tenure() == 0);
  CHECK(node.state.ActingCoordinator() == nullptr);
}

}  // namespace
}  // namespace tidepool::daemon
