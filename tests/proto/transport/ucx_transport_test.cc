#include "proto/transport/ucx_transport.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <thread>

#include "proto/transport/process_environment.h"
#include "tests/proto/transport/harness.h"
#include "tests/support/skip.h"

namespace tidepool::transport {
namespace {

// Two workers of a process, each connected to the other.
struct Pair {
  explicit Pair(bool workers_move = false, bool both_ways = true)
      : context(MakeLoopback(workers_move)),
        a(MakeWorkerOf(context.get(), &at_a)),
        b(MakeWorkerOf(context.get(), &at_b)) {
    a_to_b = *a->Connect(b->Address());
    if (both_ways) b_to_a = *b->Connect(a->Address());
  }
  std::vector<Worker*> both() { return {a.get(), b.get()}; }

  BufferPool pool;
  RecordingReceiver at_a;
  RecordingReceiver at_b;
  std::unique_ptr<Context> context;
  std::unique_ptr<Worker> a;
  std::unique_ptr<Worker> b;
  Endpoint* a_to_b;
  Endpoint* b_to_a = nullptr;
};

// Every small size, the neighbourhood of powers of two, and the largest.
std::vector<std::size_t> InterestingSizes() {
  std::vector<std::size_t> sizes;
  for (std::size_t size = 0; size <= 300; ++size) sizes.push_back(size);
  for (std::size_t power = 512; power <= 32'768; power *= 2) {
    sizes.insert(sizes.end(), {power - 1, power, power + 1});
  }
  sizes.insert(sizes.end(), {FrameBuffer::kCapacity - 1, FrameBuffer::kCapacity});
  return sizes;
}

}  // namespace

TEST_CASE("FramesOfAllSizesArriveWholeBetweenTwoWorkers") {
  Pair pair;
  const auto sizes = InterestingSizes();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    REQUIRE(pair.a->Send(pair.a_to_b, MakeFrame(&pair.pool, i, sizes[i])).ok());
  }
  REQUIRE(PumpUntil(pair.both(), [&] {
    return pair.at_b.frames == sizes.size() && pair.a->sends_in_flight() == 0;
  }));
  CHECK(pair.at_b.sizes == sizes);
  CHECK(pair.at_b.damaged == 0);
  CHECK(pair.pool.free_count() == pair.pool.made());
}

TEST_CASE("FramesKeepTheirOrderWhateverTheirSizes") {
  const auto seed = static_cast<unsigned>(std::random_device()());
  INFO("seed " << seed);
  std::mt19937 random(seed);
  Pair pair;
  constexpr std::uint64_t kFrames = 3'000;
  std::uint64_t sent = 0;
  REQUIRE(PumpUntil(pair.both(), [&] {
    while (sent < kFrames && sent - pair.at_b.frames < 64) {
      const std::size_t size =
          random() % 4 == 0 ? 8 + random() % (FrameBuffer::kCapacity - 7) : 8 + random() % 512;
      if (!pair.a->Send(pair.a_to_b, MakeFrame(&pair.pool, sent, size)).ok()) return true;
      ++sent;
    }
    return pair.at_b.frames == kFrames;
  }));
  REQUIRE(pair.at_b.numbers.size() == kFrames);
  for (std::uint64_t i = 0; i < kFrames; ++i) REQUIRE(pair.at_b.numbers[i] == i);
}

TEST_CASE("AReceiverMayAnswerFromInsideOnFrame") {
  Pair pair;
  pair.at_b.on_frame = [&](Bytes frame) {
    (void)pair.b->Send(pair.b_to_a, MakeFrame(&pair.pool, *CheckFrame(frame) + 1, frame.size()));
  };
  pair.at_a.on_frame = [&](Bytes frame) {
    if (pair.at_a.frames < 500) {
      (void)pair.a->Send(pair.a_to_b, MakeFrame(&pair.pool, *CheckFrame(frame) + 1, frame.size()));
    }
  };
  REQUIRE(pair.a->Send(pair.a_to_b, MakeFrame(&pair.pool, 0, 64)).ok());
  REQUIRE(PumpUntil(pair.both(), [&] { return pair.at_a.frames == 500; }));
  CHECK(pair.at_a.numbers.back() == 999);
}

TEST_CASE("FramesOfAllSizesSurviveTheWayToAnotherProcessAndBack") {
  BufferPool pool;
  RecordingReceiver receiver;
  auto context = MakeLoopback();
  auto worker = MakeWorkerOf(context.get(), &receiver);
  Child echo({PeerProgram(), "echo"});
  const auto address = echo.ReadLine();
  REQUIRE(address.has_value());
  auto endpoint = worker->Connect(FromHex(*address));
  REQUIRE(endpoint.ok());
  echo.WriteLine("connect " + ToHex(worker->Address()));
  REQUIRE(echo.ReadLine([&] { worker->Progress(); }) == "connected");
  const auto sizes = InterestingSizes();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    REQUIRE(worker->Send(*endpoint, MakeFrame(&pool, i, sizes[i])).ok());
    REQUIRE(PumpUntil({worker.get()}, [&] { return receiver.frames == i + 1; }));
  }
  CHECK(receiver.sizes == sizes);
  CHECK(receiver.damaged == 0);
}

TEST_CASE("ThreeHundredWorkersTalkToOne", "[machine]") {
  constexpr std::size_t kPeers = 300;
  if (const auto files = RaiseDescriptorLimit(); files < 8 * kPeers) {
    TIDEPOOL_SKIP("only " << files << " file descriptors are allowed");
  }
  BufferPool pool;
  RecordingReceiver at_server;
  std::vector<RecordingReceiver> at_peers(kPeers);
  auto context = MakeLoopback();
  auto server = MakeWorkerOf(context.get(), &at_server);
  std::vector<std::unique_ptr<Worker>> peers;
  std::vector<Endpoint*> answers_to;
  std::vector<Worker*> all = {server.get()};
  at_server.on_frame = [&](Bytes frame) {
    const std::uint64_t from = *CheckFrame(frame);
    (void)server->Send(answers_to[from], MakeFrame(&pool, from, 512));
  };
  for (std::size_t i = 0; i < kPeers; ++i) {
    peers.push_back(MakeWorkerOf(context.get(), &at_peers[i]));
    all.push_back(peers.back().get());
    answers_to.push_back(*server->Connect(peers.back()->Address()));
    auto to_server = peers.back()->Connect(server->Address());
    REQUIRE(to_server.ok());
    REQUIRE(peers.back()->Send(*to_server, MakeFrame(&pool, i, 4'096)).ok());
  }
  REQUIRE(PumpUntil(all, [&] {
    return std::all_of(at_peers.begin(), at_peers.end(),
                       [](const RecordingReceiver& r) { return r.frames == 1; });
  }));
  for (std::size_t i = 0; i < kPeers; ++i) CHECK(at_peers[i].numbers.front() == i);
  CHECK(at_server.lost.empty());
}

// UCX closes its port for good when accept() fails, so the worker must stop before.
TEST_CASE("NearTheDescriptorLimitConnectionsAreRefusedAndThePortStaysOpen") {
  Child child({PeerProgram(), "descriptors"});
  CHECK(child.ReadLine() == "RESOURCE_EXHAUSTED");
  CHECK(child.ReadLine() == "OK");
  CHECK(child.Wait() == 0);
}

TEST_CASE("BytesThatAreNotAnAddressAreRefused") {
  const auto seed = static_cast<unsigned>(std::random_device()());
  INFO("seed " << seed);
  std::mt19937 random(seed);
  Pair pair;
  const std::string good = pair.b->Address();
  CHECK(pair.a->Connect("").code() == StatusCode::kInvalidArgument);
  CHECK(pair.a->Connect("127.0.0.1:4711").code() == StatusCode::kInvalidArgument);
  CHECK(pair.a->Connect(good + "x").code() == StatusCode::kInvalidArgument);
  CHECK(pair.a->Connect(std::string(1 << 20, 'x')).code() == StatusCode::kInvalidArgument);
  for (std::size_t size = 0; size < good.size(); ++size) {
    REQUIRE(pair.a->Connect(good.substr(0, size)).code() == StatusCode::kInvalidArgument);
  }
  for (int i = 0; i < 2'000; ++i) {
    std::string bad = good;
    bad[random() % bad.size()] ^= static_cast<char>(1u << random() % 8);
    REQUIRE(pair.a->Connect(bad).code() == StatusCode::kInvalidArgument);
  }
}

TEST_CASE("AnEndpointMayBeClosedInsideOnFrameWithFramesUnderWay") {
  Pair pair;
  for (int round = 0; round < 20; ++round) {
    bool is_closed = false;
    pair.at_b.on_frame = [&](Bytes) {
      if (is_closed) return;
      for (int i = 0; i < 8; ++i) {
        (void)pair.b->Send(pair.b_to_a, MakeFrame(&pair.pool, 0, FrameBuffer::kCapacity));
      }
      pair.b->Close(pair.b_to_a);
      is_closed = true;
    };
    REQUIRE(pair.a->Send(pair.a_to_b, MakeFrame(&pair.pool, 0, 64)).ok());
    REQUIRE(PumpUntil(pair.both(), [&] { return is_closed && pair.b->sends_in_flight() == 0; }));
    pair.at_b.on_frame = nullptr;
    // The other side learns of it, or was asked to close first; either way it starts again.
    pair.a->Close(pair.a_to_b);
    REQUIRE(PumpUntil(pair.both(), [&] { return pair.a->sends_in_flight() == 0; }));
    pair.a_to_b = *pair.a->Connect(pair.b->Address());
    pair.b_to_a = *pair.b->Connect(pair.a->Address());
  }
  const std::size_t before = pair.at_b.frames;
  REQUIRE(pair.a->Send(pair.a_to_b, MakeFrame(&pair.pool, 7, 64)).ok());
  REQUIRE(PumpUntil(pair.both(), [&] { return pair.at_b.frames > before; }));
  REQUIRE(PumpUntil(pair.both(), [&] { return pair.a->sends_in_flight() == 0; }));
  CHECK(pair.pool.free_count() == pair.pool.made());
}

TEST_CASE("ASleepingWorkerIsWokenByAFrame") {
  Pair pair;
  REQUIRE(pair.a->Send(pair.a_to_b, MakeFrame(&pair.pool, 1, 64)).ok());
  REQUIRE(pair.b->Send(pair.b_to_a, MakeFrame(&pair.pool, 1, 64)).ok());
  REQUIRE(PumpUntil(pair.both(), [&] { return pair.at_a.frames + pair.at_b.frames == 2; }));
  for (std::uint64_t i = 0; i < 50; ++i) {
    do {
      while (pair.b->Progress() != 0) {
      }
    } while (!pair.b->Arm());
    const std::size_t before = pair.at_b.frames;
    REQUIRE(pair.a->Send(pair.a_to_b, MakeFrame(&pair.pool, i, 64)).ok());
    pollfd ready{pair.b->event_fd(), POLLIN, 0};
    REQUIRE(poll(&ready, 1, static_cast<int>(kTestDeadlineMs)) == 1);
    REQUIRE(PumpUntil({pair.b.get()}, [&] { return pair.at_b.frames == before + 1; }));
  }
}

TEST_CASE("ASleepingWorkerIsWokenByAnotherThread") {
  Pair pair;
  for (int i = 0; i < 50; ++i) {
    do {
      while (pair.b->Progress() != 0) {
      }
    } while (!pair.b->Arm());
    std::thread waker([&] { pair.b->Wake(); });
    pollfd ready{pair.b->event_fd(), POLLIN, 0};
    const int n = poll(&ready, 1, static_cast<int>(kTestDeadlineMs));
    waker.join();
    REQUIRE(n == 1);
  }
}

TEST_CASE("AWakeBeforeArmIsNotLost") {
  Pair pair;
  while (pair.b->Progress() != 0) {
  }
  std::thread([&] { pair.b->Wake(); }).join();
  if (pair.b->Arm()) {
    pollfd ready{pair.b->event_fd(), POLLIN, 0};
    REQUIRE(poll(&ready, 1, static_cast<int>(kTestDeadlineMs)) == 1);
  }
}

TEST_CASE("ArmAsksForProgressAfterAClose") {
  Pair pair;
  while (pair.a->Progress() != 0) {
  }
  pair.a->Close(pair.a_to_b);
  CHECK_FALSE(pair.a->Arm());
  REQUIRE(PumpUntil(pair.both(), [&] {
    while (pair.a->Progress() != 0) {
    }
    return pair.a->Arm();
  }));
}

TEST_CASE("AClosedEndpointLeavesTheOtherDirectionAsItIs") {
  Pair pair;
  REQUIRE(pair.a->Send(pair.a_to_b, MakeFrame(&pair.pool, 1, 64)).ok());
  REQUIRE(pair.b->Send(pair.b_to_a, MakeFrame(&pair.pool, 1, 64)).ok());
  REQUIRE(PumpUntil(pair.both(), [&] { return pair.at_a.frames + pair.at_b.frames == 2; }));
  pair.a->Close(pair.a_to_b);
  for (std::uint64_t i = 2; i <= 100; ++i) {
    REQUIRE(pair.b->Send(pair.b_to_a, MakeFrame(&pair.pool, i, 64)).ok());
    REQUIRE(PumpUntil(pair.both(), [&] { return pair.at_a.frames == i; }));
  }
  CHECK(pair.at_a.lost.empty());
  CHECK(pair.at_b.lost.empty());
}

// UCX 1.13.1 does not survive the cut of a connection with two directions. It would join the
// directions if the peer's UCX learned the sender's place (RESOLVE_REMOTE_EP_ID).
TEST_CASE("NothingComesBackOverAConnectionButItsGreeting") {
  Pair pair(/*workers_move=*/false, /*both_ways=*/false);
  for (std::uint64_t i = 1; i <= 100; ++i) {
    REQUIRE(pair.a->Send(pair.a_to_b, MakeFrame(&pair.pool, i, 1'000)).ok());
  }
  REQUIRE(PumpUntil(pair.both(), [&] { return pair.at_b.frames == 100; }));
  std::vector<std::uint64_t> received;
  for (int fd = 0; fd < 1'000; ++fd) {
    sockaddr_storage address{};
    socklen_t bytes = sizeof address;
    tcp_info info{};
    socklen_t info_bytes = sizeof info;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &bytes) == 0 &&
        getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &info_bytes) == 0) {
      received.push_back(info.tcpi_bytes_received);
    }
  }
  REQUIRE(received.size() == 2);  // The two ends of a connection.
  CHECK(std::max(received[0], received[1]) > 100'000);
  CHECK(std::min(received[0], received[1]) < 64);
}

TEST_CASE("WhatWasSentStillArrivesOverAnEndpointThatIsClosedWhenSent") {
  Pair pair;
  int frames = 0;
  for (std::uint64_t i = 0; i < 100; ++i, ++frames) {
    REQUIRE(pair.a->Send(pair.a_to_b, MakeFrame(&pair.pool, i, FrameBuffer::kCapacity)).ok());
  }
  CHECK(pair.a_to_b->bytes_in_flight() > 0);
  pair.a->CloseWhenSent(pair.a_to_b);
  REQUIRE(PumpUntil(pair.both(), [&] { return pair.at_b.frames == 100; }));
  CHECK(pair.at_b.damaged == 0);
  CHECK(pair.a->sends_in_flight() == 0);
  CHECK(pair.at_a.lost.empty());
  // It has left, and may be used again.
  pair.a_to_b = *pair.a->Connect(pair.b->Address());
  REQUIRE(pair.a->Send(pair.a_to_b, MakeFrame(&pair.pool, 1, 64)).ok());
  REQUIRE(PumpUntil(pair.both(), [&] { return pair.at_b.frames == 101; }));
}

TEST_CASE("AnEndpointThatIsClosedWhenSentIsGoneWhenThePeerIsLost") {
  Pair pair;
  const std::string address = pair.b->Address();
  pair.b.reset();
  Endpoint* endpoint = *pair.a->Connect(address);
  REQUIRE(pair.a->Send(endpoint, MakeFrame(&pair.pool, 1, 64)).ok());
  pair.a->CloseWhenSent(endpoint);
  REQUIRE(PumpUntil({pair.a.get()}, [&] { return pair.a->sends_in_flight() == 0; }));
  CHECK(std::count(pair.at_a.lost.begin(), pair.at_a.lost.end(), endpoint) == 0);
}

// Each of these has waiting frames, and none may delay the other peers' frames for long.
TEST_CASE("ManyPeersThatDoNotReadHoldUpNobody") {
  Pair pair;
  std::vector<std::unique_ptr<Worker>> silent;
  for (int i = 0; i < 50; ++i) {
    silent.push_back(MakeWorkerOf(pair.context.get(), &pair.at_b));
    Endpoint* endpoint = *pair.a->Connect(silent.back()->Address());
    for (std::uint64_t n = 0; n < 10; ++n) {
      REQUIRE(pair.a->Send(endpoint, MakeFrame(&pair.pool, n, 1'000)).ok());
    }
  }
  for (std::uint64_t i = 0; i < 100; ++i) {
    REQUIRE(pair.a->Send(pair.a_to_b, MakeFrame(&pair.pool, i, FrameBuffer::kCapacity)).ok());
  }
  REQUIRE(PumpUntil(pair.both(), [&] { return pair.at_b.frames == 100; }));
  CHECK(pair.a->sends_in_flight() == 500);
  std::vector<Worker*> all = pair.both();
  for (const auto& worker : silent) all.push_back(worker.get());
  REQUIRE(PumpUntil(all, [&] { return pair.at_b.frames == 600; }));
  CHECK(pair.a->sends_in_flight() == 0);
}

TEST_CASE("ThreadsMayTakeTurnsOnAWorkerIfTheSettingsSaySo") {
  Pair pair(/*workers_move=*/true);
  for (std::uint64_t i = 0; i < 20; ++i) {
    bool is_there = false;
    std::thread([&] {
      (void)pair.a->Send(pair.a_to_b, MakeFrame(&pair.pool, i, 64));
      is_there = PumpUntil(pair.both(), [&] { return pair.at_b.frames == i + 1; });
    }).join();
    REQUIRE(is_there);
  }
}

#ifndef NDEBUG
TEST_CASE("TwoThreadsOnOneWorkerEndADebugBuild") {
  Child child({"sh", "-c", "exec \"$0\" misuse 2>/dev/null", PeerProgram()},
              {{"UCX_HANDLE_ERRORS", "none"}});
  const auto status = child.Wait();
  REQUIRE(status.has_value());
  CHECK(WIFSIGNALED(*status));
  CHECK(WTERMSIG(*status) == SIGABRT);
}
#endif

TEST_CASE("TheContextMayGoBeforeItsWorkers") {
  Pair pair;
  pair.context.reset();
  REQUIRE(pair.a->Send(pair.a_to_b, MakeFrame(&pair.pool, 1, 64)).ok());
  REQUIRE(PumpUntil(pair.both(), [&] { return pair.at_b.frames == 1; }));
}

TEST_CASE("EndpointsAreReusedAfterCloseWithoutTheOldMark") {
  Pair pair;
  int mark = 0;
  pair.a_to_b->user = &mark;
  pair.a->Close(pair.a_to_b);
  pair.a_to_b = *pair.a->Connect(pair.b->Address());
  CHECK(pair.a_to_b->user == nullptr);
  CHECK(pair.a_to_b->alive());
}

}  // namespace tidepool::transport
