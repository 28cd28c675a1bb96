#include "daemon/node/connection_file.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "proto/cluster_file/cluster_file.h"
#include "proto/cluster_file/job_token.h"
#include "tests/integration/harness.h"

namespace tidepool::daemon {
namespace {

using testing::TemporaryFolder;

constexpr const char* kCluster = "3f2b8c1e-9d4a-4c6f-8a51-0d7e6b2c9f10";

std::string UuidOf(int node) {
  return "00000000-0000-4000-8000-00000000000" + std::to_string(node);
}

placement::PlacementMap MapOf(std::uint64_t epoch, int nodes) {
  placement::PlacementMap map;
  map.cluster_uuid = kCluster;
  map.nodes_expected = 3;
  map.epoch = Epoch(epoch);
  for (int i = 0; i < nodes; ++i) {
    placement::Node node;
    node.id = NodeId(static_cast<std::uint16_t>(i));
    node.uuid = UuidOf(i);
    node.control_address = "127.0.0.1:" + std::to_string(1000 + i);
    node.host = "host" + std::to_string(i);
    map.nodes.push_back(node);
  }
  return map;
}

struct FileFixture {
  explicit FileFixture(bool by_election = false, int self = 0) {
    ConnectionFileOptions options;
    options.path = path;
    options.node_uuid = UuidOf(self);
    options.by_election = by_election;
    options.look_ms = 1000;
    file.emplace(std::move(options), clock);
    file->SetToken(cluster_file::MakeToken());
  }
  void Publish(const placement::PlacementMap& map) {
    REQUIRE(file->WriteSecrets(map.cluster_uuid).ok());
    const Status published = file->Publish(map, /*is_new=*/true);
    INFO(published.ToString());
    REQUIRE(published.ok());
  }
  cluster_file::ClusterFile Read() const {
    const auto read = cluster_file::Read(path);
    INFO(read.status().ToString());
    REQUIRE(read.ok());
    return *read;
  }
  bool Exists() const { return std::filesystem::exists(path); }

  TemporaryFolder folder;
  const std::string path = folder.path() + "/cluster.json";
  ManualClock clock;
  std::optional<ConnectionFile> file;
};

TEST_CASE("ThePublishedFileNamesItsWriterTheNodesAndATokenThatIsThere") {
  FileFixture fixture(/*by_election=*/false, /*self=*/1);
  fixture.Publish(MapOf(5, 2));
  const auto read = fixture.Read();
  CHECK(read.cluster_uuid == kCluster);
  CHECK(read.nodes_expected == 3);
  CHECK(read.coordinator == 1);
  REQUIRE(read.nodes.size() == 2);
  CHECK(read.nodes[1].control_address == "127.0.0.1:1001");
  CHECK(cluster_file::ReadTokenFile(read.token_file).ok());
}

TEST_CASE("TheFileFollowsEachNewerMapUntilItNamesAllNodes") {
  FileFixture fixture;
  fixture.Publish(MapOf(1, 1));
  CHECK(fixture.file->IsForming());
  fixture.file->Follow(MapOf(2, 2));
  CHECK(fixture.file->followed() == Epoch(2));
  CHECK(fixture.Read().nodes.size() == 2);
  CHECK(fixture.file->IsForming());
  fixture.file->Follow(MapOf(3, 3));
  CHECK(fixture.Read().nodes.size() == 3);
  CHECK_FALSE(fixture.file->IsForming());
}

TEST_CASE("ADamagedFileIsWrittenAgainThoughTheMapIsUnchanged") {
  FileFixture fixture;
  fixture.Publish(MapOf(1, 3));
  fixture.file->Follow(MapOf(1, 3));
  std::ofstream(fixture.path, std::ios::trunc) << "{";
  REQUIRE_FALSE(cluster_file::Read(fixture.path).ok());
  fixture.file->Follow(MapOf(1, 3));
  CHECK(fixture.Read().nodes.size() == 3);
}

TEST_CASE("AFileThatAFormerCoordinatorHasRemovedComesBackWithItsToken") {
  FileFixture fixture(/*by_election=*/true);
  fixture.Publish(MapOf(1, 3));
  fixture.file->Follow(MapOf(1, 3));
  fixture.file->Follow(MapOf(1, 3));  // Looks at the file, and not again for look_ms.
  const std::string token_file = fixture.Read().token_file;
  std::filesystem::remove(fixture.path);
  std::filesystem::remove(token_file);
  fixture.clock.AdvanceNs(900'000'000);
  fixture.file->Follow(MapOf(1, 3));
  const bool too_early = fixture.Exists();
  fixture.clock.AdvanceNs(1'000'000'000);
  fixture.file->Follow(MapOf(1, 3));
  CHECK_FALSE(too_early);
  CHECK(fixture.Read().nodes.size() == 3);
  CHECK(cluster_file::ReadTokenFile(token_file).ok());
}

TEST_CASE("ALostRaceForTheFileLeavesNoSecretBehind") {
  FileFixture winner;
  winner.Publish(MapOf(1, 1));
  ConnectionFileOptions options;
  options.path = winner.path;
  options.node_uuid = UuidOf(1);
  ConnectionFile loser(options);
  loser.SetToken(cluster_file::MakeToken());
  placement::PlacementMap other = MapOf(1, 1);
  other.cluster_uuid = "11111111-9d4a-4c6f-8a51-0d7e6b2c9f10";
  REQUIRE(loser.WriteSecrets(other.cluster_uuid).ok());
  const std::string secret = cluster_file::TokenPathFor(winner.path, other.cluster_uuid);
  REQUIRE(std::filesystem::exists(secret));
  CHECK(loser.Publish(other, /*is_new=*/true).code() == StatusCode::kAlreadyExists);
  CHECK_FALSE(loser.is_published());
  loser.RemoveSecrets();
  CHECK_FALSE(std::filesystem::exists(secret));
  CHECK(winner.Read().cluster_uuid == kCluster);
}

TEST_CASE("ReleaseLeavesTheFileAndRemoveTakesItAway") {
  FileFixture fixture;
  fixture.Publish(MapOf(1, 3));
  fixture.file->Release();
  CHECK(fixture.Exists());
  fixture.file->Remove();  // Another coordinator's by now.
  CHECK(fixture.Exists());
  fixture.file->Follow(MapOf(2, 3));  // This node is the coordinator again.
  CHECK(fixture.file->is_published());
  fixture.file->Remove();
  CHECK_FALSE(fixture.Exists());
}

TEST_CASE("ANodeWithoutAPathWritesNothing") {
  const TemporaryFolder folder;
  ConnectionFile file;
  file.SetToken(cluster_file::MakeToken());
  CHECK(file.WriteSecrets(kCluster).ok());
  CHECK(file.Publish(MapOf(1, 1), /*is_new=*/true).ok());
  file.Follow(MapOf(2, 1));
  CHECK_FALSE(file.is_published());
  CHECK(file.followed() == Epoch());
}

}  // namespace
}  // namespace tidepool::daemon
