// Connections on their way to gRPC, with a handler that reads as gRPC does: until no bytes come.
#include "daemon/services/connection_handover.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <future>
#include <thread>
#include <vector>

#include "proto/cluster_file/file_io.h"

namespace tidepool::daemon {
namespace {

using cluster_file::Descriptor;

struct Pair {
  Pair() {
    std::array<int, 2> ends{};
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    ours = ends[0];
    theirs = Descriptor(ends[1]);
  }
  // True once the other end is closed or shut down. Blocks until then.
  bool Ended() const {
    char byte = 0;
    return read(theirs.get(), &byte, 1) <= 0;
  }
  int ours = -1;  // Belongs to the handover.
  Descriptor theirs;
};

// Reads until the end, and says when it has begun.
class BlockingHandler {
 public:
  void operator()(int connection) {
    const Descriptor owned(connection);
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
    const Descriptor owned(connection);
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
  // Ends the busy connection, whose other end says nothing, and closes the others unseen.
  (*handover)->Close();
  CHECK(busy.Ended());
  for (const Pair& pair : waiting) CHECK(pair.Ended());
  // What comes late is closed, too.
  Pair late;
  (*handover)->Add(late.ours);
  CHECK(late.Ended());
}

}  // namespace
}  // namespace tidepool::daemon
