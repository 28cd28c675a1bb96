#include "daemon/node/cluster_end.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "daemon/membership/identity.h"
#include "proto/cluster_file/job_token.h"
#include "proto/cluster_file/published_file.h"
#include "proto/cluster_file/random.h"
#include "tests/integration/harness.h"

namespace tidepool::daemon {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

// A port that is open until Close.
class OpenPort {
 public:
  OpenPort() {
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    REQUIRE(bind(fd_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(listen(fd_, 8) == 0);
    REQUIRE(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
  }
  ~OpenPort() { Close(); }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  int fd_ = -1;
  std::uint16_t port_ = 0;
};

// A cluster of two nodes with folders beside the connection file; node 0 is the coordinator.
struct EndFixture {
  EndFixture() {
    map.cluster_uuid = cluster_file::MakeUuid();
    map.nodes_expected = 2;
    map.epoch = Epoch(3);
    cluster_file::ClusterFile file;
    file.cluster_uuid = map.cluster_uuid;
    file.nodes_expected = 2;
    file.token_file = cluster_file::TokenPathFor(path, map.cluster_uuid);
    REQUIRE(cluster_file::WriteTokenFile(file.token_file, cluster_file::MakeToken()).ok());
    for (std::uint16_t i = 0; i < 2; ++i) {
      const auto identity = Identity::Open(FolderOf(i));
      REQUIRE(identity.ok());
      placement::Node node;
      node.id = NodeId(i);
      node.uuid = identity->uuid();
      node.host = "host";
      node.control_address = ports[i].address();
      map.nodes.push_back(node);
      file.nodes.push_back({node.uuid, node.control_address, node.host});
    }
    token_file = file.token_file;
    REQUIRE(cluster_file::PublishedFile::Create(path, file).ok());
    end.file_path = path;
    end.node_uuid = map.nodes[1].uuid;
    ports[1].Close();  // The ending node has closed its own.
  }
  std::string FolderOf(std::uint16_t node) const {
    return cluster_file::DataFolderFor(path) + "/host." + std::to_string(node);
  }

  TemporaryFolder folder;
  const std::string path = folder.path() + "/cluster.json";
  OpenPort ports[2];
  placement::PlacementMap map;
  ClusterEnd end;
  std::string token_file;
};

TEST_CASE("TheLastDaemonTakesFileSecretsAndFoldersAway") {
  EndFixture fixture;
  fixture.ports[0].Close();
  RemoveFilesOfCluster(fixture.map, fixture.end);
  CHECK_FALSE(fs::exists(fixture.path));
  CHECK_FALSE(fs::exists(fixture.token_file));
  CHECK_FALSE(fs::exists(cluster_file::DataFolderFor(fixture.path)));
}

TEST_CASE("AllStaysWhileAnotherNodesPortIsOpen") {
  EndFixture fixture;
  RemoveFilesOfCluster(fixture.map, fixture.end);
  CHECK(fs::exists(fixture.path));
  CHECK(fs::exists(fixture.token_file));
  CHECK(fs::exists(fixture.FolderOf(0)));
  CHECK(fs::exists(fixture.FolderOf(1)));
}

TEST_CASE("ANodeThatHasLeftIsNotAsked") {
  EndFixture fixture;
  fixture.map.nodes[0].state = placement::NodeState::kLeft;
  // Another daemon may have its port by now, and the file does not make a node of it.
  RemoveFilesOfCluster(fixture.map, fixture.end);
  CHECK_FALSE(fs::exists(fixture.path));
}

TEST_CASE("AFolderThatTheUserHasNamedStays") {
  EndFixture fixture;
  fixture.ports[0].Close();
  fixture.end.given_folder = fixture.FolderOf(1);
  RemoveFilesOfCluster(fixture.map, fixture.end);
  CHECK_FALSE(fs::exists(fixture.path));
  CHECK_FALSE(fs::exists(fixture.FolderOf(0)));
  CHECK(fs::exists(fixture.FolderOf(1)));
}

TEST_CASE("FoldersStayWhenTheStateIsInEtcd") {
  EndFixture fixture;
  fixture.ports[0].Close();
  fixture.end.keep_folders = true;
  RemoveFilesOfCluster(fixture.map, fixture.end);
  CHECK_FALSE(fs::exists(fixture.path));
  CHECK(fs::exists(fixture.FolderOf(0)));
}

TEST_CASE("AnotherClustersFileStays") {
  EndFixture fixture;
  fixture.ports[0].Close();
  fixture.map.cluster_uuid = cluster_file::MakeUuid();
  RemoveFilesOfCluster(fixture.map, fixture.end);
  CHECK(fs::exists(fixture.path));
  CHECK(fs::exists(fixture.FolderOf(0)));
}

}  // namespace
}  // namespace tidepool::daemon
