// Clients of a cluster with daemons that have all ended and serve again at other addresses.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "proto/base/unique_fd.h"
#include "proto/cluster_file/file_io.h"
#include "tests/client/sdk_fixture.h"

namespace tidepool::testing {
namespace {

// Takes the port of a daemon that has ended, so that no daemon gets it again.
UniqueFd Take(const std::string& address) {
  UniqueFd taken(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int one = 1;
  REQUIRE(setsockopt(taken.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port =
      htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(bind(taken.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
  REQUIRE(listen(taken.get(), 1) == 0);
  return taken;
}

std::vector<std::string> AddressesOf(TestCluster& cluster) {
  std::vector<std::string> addresses;
  for (std::size_t i = 0; i < cluster.size(); ++i) addresses.push_back(cluster.address(i));
  return addresses;
}

// Ends all daemons and starts them at other addresses.
void Move(TestCluster& cluster) {
  const std::vector<std::string> before = AddressesOf(cluster);
  for (std::size_t i = 0; i < cluster.size(); ++i) cluster.Kill(i);
  std::vector<UniqueFd> taken;
  for (const std::string& address : before) taken.push_back(Take(address));
  for (std::size_t i = 0; i < cluster.size(); ++i) cluster.Start(i);
  cluster.WaitReady();
  for (const std::string& address : AddressesOf(cluster)) {
    REQUIRE(std::find(before.begin(), before.end(), address) == before.end());
  }
}

TEST_CASE("A client finds its cluster again when all daemons come back at other addresses") {
  TestCluster cluster({.nodes = 2});
  cluster.WaitReady();
  Client client = ConnectTo(cluster, {.call_timeout = std::chrono::milliseconds(kPatienceMs)});
  const BytesMap map = Open<BytesMap>(client, "moved", {.on_loss = OnLoss::kEmpty});
  RequireOk(map.Put("k", "before").status());
  // Twice: the addresses that were read from the file are of no use the second time.
  for (int round = 0; round < 2; ++round) {
    Move(cluster);
    auto put = map.Put("k", "after");
    // The client may learn of the kill by this put: sent to the killed daemon, its outcome is
    // unknown.
    if (put.status().code() == StatusCode::kUnknown) put = map.Put("k", "after");
    INFO(put.status().ToString());
    REQUIRE(put.ok());
    const auto got = map.Get("k");
    INFO(got.status().ToString());
    REQUIRE(got.ok());
    CHECK(got->bytes == "after");
  }
}

TEST_CASE("A client makes a namespace in a cluster that serves at other addresses") {
  TestCluster cluster({.nodes = 1});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  Move(cluster);
  const auto map = client.OpenOrCreate<BytesMap>("new");
  INFO(map.status().ToString());
  REQUIRE(map.ok());
  CHECK(map->Put("k", "v").ok());
}

}  // namespace
}  // namespace tidepool::testing
