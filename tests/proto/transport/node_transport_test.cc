#include "proto/transport/node_transport.h"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "proto/base/clock.h"
#include "tests/proto/transport/ring_harness.h"

namespace tidepool::transport {
namespace {

std::unique_ptr<Context> MakeNode(const NodeTransportSettings& settings) {
  auto context = MakeNodeContext(settings);
  if (!context.ok()) throw std::runtime_error(context.status().ToString());
  return *std::move(context);
}

// A daemon's worker, which echoes, and a client's.
struct Pair {
  explicit Pair(TransportUse client_use = TransportUse::kAuto, std::uint64_t ring_bytes = 64 << 20)
      : daemon_context([&] {
          NodeTransportSettings settings;
          settings.ring.folder = folder.path();
          settings.ring.memory_bytes = ring_bytes;
          settings.ucx.workers_move_between_threads = true;
          return MakeNode(settings);
        }()),
        client_context([&] {
          NodeTransportSettings settings;
          settings.use = client_use;
          return MakeNode(settings);
        }()),
        daemon(MakeWorkerOf(daemon_context.get(), &at_daemon)),
        client(MakeWorkerOf(client_context.get(), &at_client)) {
    at_daemon.on_frame = [this](Bytes frame) {
      FrameBufferPtr answer = pool.Take();
      answer->set_size(frame.size());
      std::copy(frame.begin(), frame.end(), answer->data());
      (void)daemon->Send(back, std::move(answer));
    };
    // Like Attach: the daemon first.
    back = *daemon->Connect(client->Address());
  }
  Status Connect() {
    auto connected = client->Connect(daemon->Address());
    if (!connected.ok()) return connected.status();
    to = *connected;
    return OkStatus();
  }
  // Frames of all sizes, there and back, in order.
  bool Echoes() {
    const std::size_t before = at_client.numbers.size();
    for (std::uint64_t i = 0; i < 40; ++i) {
      if (!client->Send(to, MakeFrame(&pool, i, 8 + i * i * 30)).ok()) return false;
    }
    if (!PumpUntil({daemon.get(), client.get()},
                   [&] { return at_client.numbers.size() == before + 40; })) {
      return false;
    }
    for (std::uint64_t i = 0; i < 40; ++i) {
      if (at_client.numbers[before + i] != i) return false;
    }
    return at_client.damaged == 0;
  }

  BufferPool pool;
  SocketFolder folder;
  RecordingReceiver at_daemon;
  RecordingReceiver at_client;
  std::unique_ptr<Context> daemon_context;
  std::unique_ptr<Context> client_context;
  std::unique_ptr<Worker> daemon;
  std::unique_ptr<Worker> client;
  Endpoint* back = nullptr;
  Endpoint* to = nullptr;
};

}  // namespace

TEST_CASE("APeerOnThisNodeIsReachedByARing") {
  Pair pair;
  REQUIRE(pair.Connect().ok());
  CHECK(pair.daemon->Describe(pair.back) == "none yet");
  REQUIRE(pair.Echoes());
  CHECK(pair.client->Describe(pair.to) == "ring");
  CHECK(pair.daemon->Describe(pair.back) == "ring");
  CHECK(pair.daemon->memory_bytes() > 0);
}

TEST_CASE("WhoAsksForUcxGetsIt") {
  Pair pair(TransportUse::kUcx);
  REQUIRE(pair.Connect().ok());
  REQUIRE(pair.Echoes());
  CHECK(pair.client->Describe(pair.to) == "ucx tcp/lo");
  CHECK(pair.daemon->Describe(pair.back) == "ucx tcp/lo");
  CHECK(pair.daemon->memory_bytes() == 0);
}

TEST_CASE("ASocketOutOfReachMeansUcx") {
  Pair pair;
  REQUIRE(unlink((pair.folder.path() + "/" + pair.folder.Names().at(0)).c_str()) == 0);
  REQUIRE(pair.Connect().ok());
  REQUIRE(pair.Echoes());
  CHECK(pair.client->Describe(pair.to) == "ucx tcp/lo");
  CHECK(pair.daemon->Describe(pair.back) == "ucx tcp/lo");
}

TEST_CASE("WhoIsRefusedRingsSendsByUcxWhatItHadSentAndKeepsItsOrder") {
  Pair pair(TransportUse::kAuto, 0);
  REQUIRE(pair.Connect().ok());
  REQUIRE(pair.Echoes());
  CHECK(pair.client->Describe(pair.to) == "ucx tcp/lo");
  CHECK(pair.at_client.lost.empty());
}

TEST_CASE("WhoWantsRingsOnlyIsToldWhyThereAreNone") {
  Pair refused(TransportUse::kRing, 0);
  REQUIRE(refused.Connect().ok());
  REQUIRE(refused.client->Send(refused.to, MakeFrame(&refused.pool, 0, 64)).ok());
  CHECK(PumpUntil({refused.daemon.get(), refused.client.get()},
                  [&] { return refused.at_client.lost.size() == 1; }));
  Pair unreachable(TransportUse::kRing);
  REQUIRE(unlink((unreachable.folder.path() + "/" + unreachable.folder.Names().at(0)).c_str()) ==
          0);
  const Status status = unreachable.Connect();
  CHECK(status.code() == StatusCode::kUnavailable);
  CHECK(status.ToString().find("--transport") != std::string::npos);
}

// Like a client's sessions with a node: a worker, connected twice.
TEST_CASE("EachOfTwoConnectionsOfAPeerIsAnsweredByItself") {
  Pair pair;
  pair.daemon->Close(pair.back);
  std::vector<Endpoint*> back;
  std::vector<Endpoint*> to;
  for (std::uint64_t tag = 1; tag <= 2; ++tag) {
    back.push_back(*pair.daemon->Connect(TagAddress(pair.client->Address(), tag)));
    to.push_back(*pair.client->Connect(TagAddress(pair.daemon->Address(), tag)));
  }
  pair.at_daemon.on_frame = {};
  REQUIRE(PumpUntil({pair.daemon.get(), pair.client.get()}, [&] {
    return pair.daemon->Describe(back[0]) == "ring" && pair.daemon->Describe(back[1]) == "ring";
  }));
  // The end of a connection is reported for it, although nothing was ever sent to it.
  pair.client->Close(to[0]);
  REQUIRE(PumpUntil({pair.daemon.get(), pair.client.get()},
                    [&] { return !pair.at_daemon.lost.empty(); }));
  CHECK(pair.at_daemon.lost == std::vector<Endpoint*>{back[0]});
  pair.daemon->Close(back[0]);
  CHECK(back[1]->alive());
  REQUIRE(pair.daemon->Send(back[1], MakeFrame(&pair.pool, 5, 64)).ok());
  REQUIRE(PumpUntil({pair.daemon.get(), pair.client.get()},
                    [&] { return pair.at_client.numbers.size() == 1; }));
  pair.back = back[1];
}

TEST_CASE("AnEndThatIsNotSeenYetIsToldByEitherWay") {
  for (const TransportUse use : {TransportUse::kAuto, TransportUse::kUcx}) {
    Pair pair(use);
    REQUIRE(pair.Connect().ok());
    REQUIRE(pair.Echoes());
    pair.daemon.reset();
    REQUIRE(PumpUntil({pair.client.get()}, [&] { return !pair.at_client.lost.empty(); }));
    CHECK(pair.at_client.lost[0] == pair.to);
    CHECK_FALSE(pair.to->alive());
    CHECK_FALSE(pair.client->Send(pair.to, MakeFrame(&pair.pool, 0, 64)).ok());
    pair.client->Close(pair.to);
  }
}

// Whatever it comes by; a frame that is missed would be answered at the deadline only.
TEST_CASE("AWorkerThatSleepsIsWokenByRingAndByUcx") {
  for (const TransportUse use : {TransportUse::kAuto, TransportUse::kUcx}) {
    Pair pair(use);
    REQUIRE(pair.Connect().ok());
    REQUIRE(pair.Echoes());
    std::atomic<bool> stop = false;
    const auto round = [](Worker& worker) {
      if (worker.Progress() != 0 || !worker.Arm()) return;
      pollfd waited{worker.event_fd(), POLLIN, 0};
      poll(&waited, 1, 10'000);
    };
    std::thread daemon([&] {
      while (!stop) round(*pair.daemon);
    });
    BufferPool pool;
    const Deadline deadline = Deadline::AfterMs(kTestDeadlineMs);
    for (std::size_t i = 41; i <= 240 && !deadline.Passed(); ++i) {
      REQUIRE(pair.client->Send(pair.to, MakeFrame(&pool, i, 64)).ok());
      while (pair.at_client.frames < i && !deadline.Passed()) round(*pair.client);
    }
    stop = true;
    pair.daemon->Wake();
    daemon.join();
    CHECK(pair.at_client.frames == 240);
    CHECK_FALSE(deadline.Passed());
  }
}

}  // namespace tidepool::transport
