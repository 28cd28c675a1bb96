#include "daemon/node/bootstrap.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/membership/embedded_store.h"
#include "proto/cluster_file/job_token.h"
#include "proto/cluster_file/published_file.h"
#include "tests/daemon/membership/example_state.h"
#include "tests/integration/harness.h"

namespace tidepool::daemon {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

// A start of a daemon with its files in a folder of the test.
struct Start {
  explicit Start(const TemporaryFolder& folder, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"--cluster", folder.path() + "/cluster.json",
                                          "--interface", "127.0.0.1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    auto read = LoadOptions(arguments, {}, {.cores = 4, .available_bytes = 1ull << 30});
    INFO(read.status().ToString());
    REQUIRE(read.ok());
    loaded = *std::move(read);
    loaded.options.join_timeout_ms = 100;
    bootstrap.emplace(loaded.options, &stop, &lease,
                      [](const std::string&) { return std::optional<std::string>(); });
  }
  Status DecideAll() {
    TP_RETURN_IF_ERROR(bootstrap->OpenIdentity());
    TP_RETURN_IF_ERROR(bootstrap->OpenDevices());
    return bootstrap->Decide();
  }

  LoadedOptions loaded;
  StopSignal stop;
  Lease lease;
  std::optional<Bootstrap> bootstrap;
};

bool Says(const Status& status, const std::string& text) {
  return status.ToString().find(text) != std::string::npos;
}

TEST_CASE("TheFirstNodeHasAStoreAndWritesNoConnectionFile") {
  const TemporaryFolder folder;
  Start start(folder);
  const Status decided = start.DecideAll();
  INFO(decided.ToString());
  REQUIRE(decided.ok());
  CHECK(start.bootstrap->part().kind == Part::Kind::kFirst);
  CHECK(start.bootstrap->interface().is_loopback);
  CHECK(start.bootstrap->volume() == nullptr);
  CHECK_FALSE(start.bootstrap->tls().has_value());
  CHECK_FALSE(fs::exists(folder.path() + "/cluster.json"));
  CHECK(start.bootstrap->TakeStore() != nullptr);
}

TEST_CASE("ALostRaceForTheFileIsDecidedAgainAsAJoin") {
  const TemporaryFolder folder;
  Start start(folder);
  REQUIRE(start.DecideAll().ok());
  REQUIRE(start.bootstrap->part().kind == Part::Kind::kFirst);
  auto store = start.bootstrap->TakeStore();
  start.bootstrap->part().start_lock = UniqueFd();
  cluster_file::ClusterFile file;
  file.cluster_uuid = "3f2b8c1e-9d4a-4c6f-8a51-0d7e6b2c9f10";
  file.nodes_expected = 2;
  file.token_file = folder.path() + "/t";
  file.nodes.push_back({"00000000-0000-4000-8000-000000000001", "127.0.0.1:1", "h"});
  const auto winner = cluster_file::PublishedFile::Create(folder.path() + "/cluster.json", file);
  REQUIRE(winner.ok());
  const Status again = start.bootstrap->Decide();
  INFO(again.ToString());
  REQUIRE(again.ok());
  CHECK(start.bootstrap->part().kind == Part::Kind::kJoin);
  REQUIRE(start.bootstrap->part().file.has_value());
  CHECK(start.bootstrap->part().file->cluster_uuid == file.cluster_uuid);
}

TEST_CASE("ACoordinatorThatComesBackHasItsTokenAndItsPort") {
  const TemporaryFolder folder;
  const std::vector<std::string> options = {"--data-dir", folder.path() + "/data"};
  ClusterState state = ExampleState(1);
  std::string token;
  {
    Start first(folder, options);
    REQUIRE(first.DecideAll().ok());
    const auto made = first.bootstrap->TokenOfCluster();
    REQUIRE(made.ok());
    token = *made;
    state.map.nodes_expected = 1;
    state.map.nodes[0].uuid = first.bootstrap->identity().uuid();
    state.map.nodes[0].control_address = "127.0.0.1:45123";
    REQUIRE(first.bootstrap->TakeStore()->Save(state, Epoch()).ok());
  }
  Start second(folder, options);
  const Status decided = second.DecideAll();
  INFO(decided.ToString());
  REQUIRE(decided.ok());
  REQUIRE(second.bootstrap->part().kind == Part::Kind::kReturn);
  CHECK(second.bootstrap->state_uuid() == state.map.cluster_uuid);
  const auto kept = second.bootstrap->TokenOfCluster();
  REQUIRE(kept.ok());
  CHECK(*kept == token);
  const std::uint32_t port = second.bootstrap->PortToReturnTo();
  // 0 only if another program has taken the port.
  CHECK((port == 45123 || !CheckPort("127.0.0.1", 45123).ok()));
}

TEST_CASE("AStartThatFailsLeavesNoFolder") {
  const TemporaryFolder folder;
  std::string made;
  {
    Start start(folder);
    REQUIRE(start.bootstrap->OpenIdentity().ok());
    made = start.bootstrap->identity().folder();
    REQUIRE(fs::exists(made + "/identity.json"));
    start.bootstrap->GiveUp();
  }
  CHECK_FALSE(fs::exists(made));
}

TEST_CASE("GiveUpKeepsAFolderThatTheUserHasNamed") {
  const TemporaryFolder folder;
  Start start(folder, {"--data-dir", folder.path() + "/data"});
  REQUIRE(start.bootstrap->OpenIdentity().ok());
  CHECK(start.bootstrap->data_dir_given());
  start.bootstrap->GiveUp();
  CHECK(fs::exists(folder.path() + "/data"));
}

TEST_CASE("TheDataFolderIsLockedWhileItsNodeStarts") {
  const TemporaryFolder folder;
  const std::vector<std::string> options = {"--data-dir", folder.path() + "/data"};
  Start first(folder, options);
  REQUIRE(first.bootstrap->OpenIdentity().ok());
  Start second(folder, options);
  const Status refused = second.bootstrap->OpenIdentity();
  CHECK(refused.code() == StatusCode::kAborted);
  CHECK(Says(refused, "data folder: "));
}

TEST_CASE("TlsOnLoopbackIsMadeOnRequestAndKeptForTheReturn") {
  const TemporaryFolder folder;
  Start start(folder, {"--data-dir", folder.path() + "/data", "--tls"});
  REQUIRE(start.DecideAll().ok());
  REQUIRE(start.bootstrap->tls().has_value());
  CHECK_FALSE(start.bootstrap->security().tls_ca.empty());
  const auto kept = cluster_file::ReadTlsFile(folder.path() + "/data/tls");
  REQUIRE(kept.ok());
  CHECK(*kept == *start.bootstrap->tls());
}

TEST_CASE("AStoppedStartSaysSo") {
  const TemporaryFolder folder;
  // A former member waits for its coordinator.
  cluster_file::ClusterFile file;
  file.cluster_uuid = "3f2b8c1e-9d4a-4c6f-8a51-0d7e6b2c9f10";
  file.nodes_expected = 2;
  file.token_file = folder.path() + "/t";
  file.nodes.push_back({"00000000-0000-4000-8000-000000000001", "127.0.0.1:1", "h"});
  Start start(folder);
  REQUIRE(start.bootstrap->OpenIdentity().ok());
  file.nodes.push_back({start.bootstrap->identity().uuid(), "127.0.0.1:2", "h"});
  { REQUIRE(cluster_file::PublishedFile::Create(folder.path() + "/cluster.json", file).ok()); }
  start.stop.Request({});
  CHECK(start.bootstrap->Decide().code() == StatusCode::kCancelled);
}

TEST_CASE("AFolderWithStateOfItsOwnIsRefusedWithEtcd") {
  const TemporaryFolder folder;
  const std::string data = folder.path() + "/data";
  fs::create_directories(data);
  REQUIRE(EmbeddedStore(data).Save(ExampleState(1), Epoch()).ok());
  Start start(folder, {"--data-dir", data, "--store", "etcd", "--etcd", "http://127.0.0.1:1"});
  const Status refused = start.bootstrap->OpenIdentity();
  CHECK(refused.code() == StatusCode::kFailedPrecondition);
  CHECK(Says(refused, "begun without etcd"));
}

}  // namespace
}  // namespace tidepool::daemon
