// Connections on their way to gRPC, with a handler that reads as gRPC does: until no bytes come.
#include "daemon/services/connection_handover.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "proto/base/clock.h"
#include "proto/base/unique_fd.h"

namespace tidepool::daemon {
namespace {

struct Pair {
  Pair() {
    std::array<int, 2> ends{};
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    ours = ends[0];
    theirs = UniqueFd(ends[1]);
  }
  // True once the other end is closed or shut down. Blocks until then.
  bool Ended() const {
    char byte = 0;
    return read(theirs.get(), &byte, 1) <= 0;
  }
  int ours = -1;  // Belongs to the handover.
  UniqueFd theirs;
};

// Reads until the end, and says when it has begun.
class BlockingHandler {
 public:
  void operator()(int connection) {
    const UniqueFd owned(connection);
    begun_.set_value();
    char bytes[64];
    while (read(connection, bytes, sizeof bytes) > 0) {
    }
  }
  void WaitUntilBegun() { begun_.get_future().wait(); }

 private:
  std::promise<void> begun_;
};

TEST_CASE("ConnectionsAreHandedOverInOrderOnAThreadOfItsOwn") {
  constexpr std::size_t kConnections = 5;
  std::vector<int> handed;
  std::thread::id on;
  std::promise<void> done;
  std::vector<Pair> pairs(kConnections);
  auto handover = ConnectionHandover::Start([&](int connection) {
    const UniqueFd owned(connection);
    handed.push_back(connection);
    on = std::this_thread::get_id();
    if (handed.size() == kConnections) done.set_value();
  });
  REQUIRE(handover.ok());
  std::vector<int> added;
  for (Pair& pair : pairs) {
    added.push_back(pair.ours);
    (*handover)->Add(pair.ours);
  }
  done.get_future().wait();
  (*handover)->Close();
  CHECK(handed == added);
  CHECK(on != std::this_thread::get_id());
  for (const Pair& pair : pairs) CHECK(pair.Ended());
}

TEST_CASE("AHandlerThatIsBusyBoundsWhatWaitsAndBlocksNobody") {
  BlockingHandler handler;
  auto handover = ConnectionHandover::Start([&](int connection) { handler(connection); });
  REQUIRE(handover.ok());
  Pair busy;
  (*handover)->Add(busy.ours);
  handler.WaitUntilBegun();
  std::vector<Pair> waiting(ConnectionHandover::kWaitingMax);
  for (Pair& pair : waiting) {
    CHECK((*handover)->HasRoom());
    (*handover)->Add(pair.ours);
  }
  CHECK_FALSE((*handover)->HasRoom());
  // Ends the busy connection, whose other end is silent, and closes the rest unread.
  (*handover)->Close();
  CHECK(busy.Ended());
  for (const Pair& pair : waiting) CHECK(pair.Ended());
  // A late connection is closed too.
  Pair late;
  (*handover)->Add(late.ours);
  CHECK(late.Ended());
}

TEST_CASE("AFirstCallThatArrivesAtTheEndIsReadWithinTheGrace") {
  constexpr std::uint64_t kLongGraceMs = 60'000;
  std::promise<void> begun;
  std::string got;
  auto handover = ConnectionHandover::Start(
      [&](int connection) {
        const UniqueFd owned(connection);
        begun.set_value();
        char byte = 0;
        while (got.size() < 4 && read(connection, &byte, 1) == 1) got.push_back(byte);
      },
      kLongGraceMs);
  REQUIRE(handover.ok());
  Pair busy;
  (*handover)->Add(busy.ours);
  begun.get_future().wait();
  REQUIRE(write(busy.theirs.get(), "ca", 2) == 2);
  const std::uint64_t start_ns = Clock::Real().MonotonicNs();
  std::thread closer([&] { (*handover)->Close(); });
  // Ended by Close, before or after it is queued.
  Pair late;
  (*handover)->Add(late.ours);
  CHECK(late.Ended());
  REQUIRE(write(busy.theirs.get(), "ll", 2) == 2);
  closer.join();
  CHECK(got == "call");
  CHECK(Clock::Real().MonotonicNs() - start_ns < kLongGraceMs * 1'000'000);
}

TEST_CASE("WithoutAFreeDescriptorTheEndBlocksNobody") {
  BlockingHandler handler;
  auto handover = ConnectionHandover::Start([&](int connection) { handler(connection); });
  REQUIRE(handover.ok());
  Pair busy;
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const UniqueFd lowest_free(fcntl(busy.ours, F_DUPFD_CLOEXEC, 0));
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(lowest_free.get()) + 1;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  CHECK(fcntl(busy.ours, F_DUPFD_CLOEXEC, 0) == -1);
  (*handover)->Add(busy.ours);
  handler.WaitUntilBegun();
  (*handover)->Close();
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(busy.Ended());
}

TEST_CASE("AConnectionThatItsHandlerClosesIsClosedForThePeer") {
  auto handover = ConnectionHandover::Start([](int connection) { close(connection); });
  REQUIRE(handover.ok());
  Pair pair;
  (*handover)->Add(pair.ours);
  CHECK(pair.Ended());
}

}  // namespace
}  // namespace tidepool::daemon
