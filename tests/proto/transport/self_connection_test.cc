#include "proto/transport/self_connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <string>
#include <vector>

#include "tests/proto/transport/harness.h"
#include "tests/support/skip.h"

namespace tidepool::transport {
namespace {

const std::string kOwnNetwork = "ip link set lo up && exec \"$@\"";

std::vector<std::string> InOwnNetwork(const std::vector<std::string>& command) {
  std::vector<std::string> argv = {"unshare", "--user", "--map-root-user", "--net",
                                   "sh",      "-c",     kOwnNetwork,       "-"};
  argv.insert(argv.end(), command.begin(), command.end());
  return argv;
}

bool MayHaveOwnNetwork() { return Child(InOwnNetwork({"true"})).Wait() == 0; }

sockaddr_in Loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

// A socket that is bound to a free port of loopback, and its address.
int BoundSocket(int type, sockaddr_in* address) {
  const int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
  *address = Loopback(0);
  socklen_t bytes = sizeof *address;
  REQUIRE(bind(fd, reinterpret_cast<const sockaddr*>(address), bytes) == 0);
  REQUIRE(getsockname(fd, reinterpret_cast<sockaddr*>(address), &bytes) == 0);
  return fd;
}

}  // namespace

TEST_CASE("AConnectionOfASocketWithItselfIsRefused") {
  for (const int flags : {0, static_cast<int>(SOCK_NONBLOCK)}) {
    sockaddr_in own{};
    const int fd = BoundSocket(SOCK_STREAM | flags, &own);
    const std::uint64_t refused = SelfConnectionsRefused();
    errno = 0;
    CHECK(connect(fd, reinterpret_cast<const sockaddr*>(&own), sizeof own) == -1);
    CHECK(errno == ECONNREFUSED);
    CHECK(SelfConnectionsRefused() == refused + 1);
    close(fd);
  }
}

TEST_CASE("OtherConnectionsAreMadeAsEver") {
  sockaddr_in listener_at{};
  const int listener = BoundSocket(SOCK_STREAM, &listener_at);
  REQUIRE(listen(listener, 1) == 0);
  sockaddr_in own{};
  const int fd = BoundSocket(SOCK_STREAM, &own);
  const std::uint64_t refused = SelfConnectionsRefused();
  CHECK(connect(fd, reinterpret_cast<const sockaddr*>(&listener_at), sizeof listener_at) == 0);
  CHECK_FALSE(
      IsSelfConnection(fd, reinterpret_cast<const sockaddr*>(&listener_at), sizeof listener_at));
  close(fd);
  close(listener);
  // Programs may wake a thread by a datagram socket that is connected with itself.
  const int datagrams = BoundSocket(SOCK_DGRAM, &own);
  CHECK(connect(datagrams, reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0);
  close(datagrams);
  CHECK(SelfConnectionsRefused() == refused);
}

TEST_CASE("AWorkerOutlivesConnectionsToADeadPeerFromThePeersOwnPort", "[surroundings][machine]") {
  if (!MayHaveOwnNetwork()) {
    TIDEPOOL_SKIP("unshare of a network is not permitted here");
  }
  Child peer(InOwnNetwork({PeerProgram(), "self-connection"}));
  const auto connections = peer.ReadLine();
  const auto refused = peer.ReadLine();
  CHECK(peer.Wait() == 0);
  CHECK(connections == "connections 40");  // Half of them to the port that the address names.
  CHECK(refused == "refused 20");
}

}  // namespace tidepool::transport
