// The connection guard on a real listener, with a handler that reads as gRPC does: on the thread
// that calls it, until no bytes come.
#include "daemon/services/connection_guard.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "daemon/control/network_interface.h"

namespace tidepool::daemon {
namespace {

using cluster_file::Descriptor;

constexpr int kPatienceMs = 60'000;

Descriptor Connect(std::uint32_t port) {
  Descriptor client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(client.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
  // Ends a test that hangs.
  const timeval patience{kPatienceMs / 1'000, 0};
  REQUIRE(setsockopt(client.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0);
  REQUIRE(setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
  return client;
}

// Answers a connection's first byte, and reads until the connection ends.
class GreedyReader {
 public:
  void Read(int connection) {
    const Descriptor owned(connection);
    std::string bytes(64 << 10, '\0');
    pollfd wait{connection, POLLIN, 0};
    while (poll(&wait, 1, kPatienceMs) > 0) {
      const ssize_t got = read(connection, bytes.data(), bytes.size());
      if (got < 0 && errno == EAGAIN) continue;
      if (got <= 0) break;
      (void)!write(connection, bytes.data(), 1);
    }
  }
};

struct Fixture {
  Fixture() {
    auto listener = OpenListener("127.0.0.1", 0, &port);
    REQUIRE(listener.ok());
    auto started = ConnectionGuard::Start(
        *std::move(listener), [this](int /*from*/, int connection) { reader.Read(connection); });
    REQUIRE(started.ok());
    guard = *std::move(started);
  }
  std::uint32_t port = 0;
  GreedyReader reader;
  std::unique_ptr<ConnectionGuard> guard;
};

// Sends until the connection breaks. Returns the bytes sent and the reason.
std::pair<std::uint64_t, int> Flood(int connection) {
  const std::string block(64 << 10, 'x');
  std::uint64_t sent = 0;
  while (true) {
    const ssize_t put = send(connection, block.data(), block.size(), MSG_NOSIGNAL);
    if (put <= 0) return {sent, errno};
    sent += static_cast<std::uint64_t>(put);
  }
}

TEST_CASE("AFloodThatIsReadAsFastAsItComesIsEndedAndTheNextConnectionIsServed") {
  Fixture f;
  const Descriptor stranger = Connect(f.port);
  const auto [sent, reason] = Flood(stranger.get());
  CHECK((reason == ECONNRESET || reason == EPIPE));
  CHECK(sent >= 128u << 10);
  const Descriptor next = Connect(f.port);
  CHECK(send(next.get(), "x", 1, MSG_NOSIGNAL) == 1);
  char byte = 0;
  CHECK(recv(next.get(), &byte, 1, 0) == 1);
}

TEST_CASE("AGuardIsClosedAlthoughAConnectionIsBeingRead") {
  Fixture f;
  const Descriptor stranger = Connect(f.port);
  CHECK(send(stranger.get(), "x", 1, MSG_NOSIGNAL) == 1);
  char byte = 0;
  REQUIRE(recv(stranger.get(), &byte, 1, 0) == 1);  // From now on the handler has it.
  f.guard->Close();
  CHECK(recv(stranger.get(), &byte, 1, 0) <= 0);
}

}  // namespace
}  // namespace tidepool::daemon
