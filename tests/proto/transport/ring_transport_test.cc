#include "proto/transport/ring_transport.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <thread>

#include "proto/base/clock.h"
#include "tests/proto/transport/ring_harness.h"
#include "tests/support/skip.h"

namespace tidepool::transport {
namespace {

RingSettings Listening(const SocketFolder& folder) {
  RingSettings settings;
  settings.folder = folder.path();
  settings.workers_move_between_threads = true;
  return settings;
}

// A server and a client of a process.
struct Pair {
  explicit Pair(std::uint64_t memory_bytes = 64 << 20)
      : server([&] {
          RingSettings settings = Listening(folder);
          settings.memory_bytes = memory_bytes;
          return settings;
        }()),
        client(server.worker->Address()) {
    server.Introduce(client.worker->Address());
  }
  bool Echoes(std::uint64_t number, std::size_t size) {
    return client.Echoes(number, size, [&] { server.Progress(); });
  }
  bool PumpBoth(const std::function<bool()>& done) {
    return PumpUntil({server.worker.get(), client.worker.get()}, done);
  }

  SocketFolder folder;
  RingServer server;
  RingClient client;
};

}  // namespace

TEST_CASE("FramesOfAllSizesGoThroughARingAndBack") {
  Pair pair;
  for (std::size_t size = 8; size <= 300; ++size) REQUIRE(pair.Echoes(size, size));
  // More than both rings hold, several times: all positions, and over the end.
  for (std::size_t i = 0; i < 100; ++i) {
    REQUIRE(pair.Echoes(i, FrameBuffer::kCapacity - i % 70));
  }
  CHECK(pair.client.worker->Describe(pair.client.endpoint) == "ring");
  CHECK(pair.client.pool.free_count() == pair.client.pool.made());
}

TEST_CASE("FramesOfARingKeepTheirOrderWhateverTheirSizes") {
  const auto seed = static_cast<unsigned>(std::random_device()());
  INFO("seed " << seed);
  std::mt19937 random(seed);
  Pair pair;
  constexpr std::uint64_t kFrames = 5'000;
  std::uint64_t sent = 0;
  REQUIRE(pair.PumpBoth([&] {
    while (sent < kFrames && sent - pair.client.receiver.frames < 64) {
      const std::size_t size =
          random() % 4 == 0 ? 8 + random() % (FrameBuffer::kCapacity - 7) : 8 + random() % 512;
      if (!pair.client.worker->Send(pair.client.endpoint, MakeFrame(&pair.client.pool, sent, size))
               .ok()) {
        return true;
      }
      ++sent;
    }
    return pair.client.receiver.frames == kFrames;
  }));
  REQUIRE(pair.client.receiver.numbers.size() == kFrames);
  for (std::uint64_t i = 0; i < kFrames; ++i) REQUIRE(pair.client.receiver.numbers[i] == i);
  CHECK(pair.client.receiver.damaged == 0);
  CHECK(pair.client.worker->sends_in_flight() == 0);
}

TEST_CASE("FramesInTwoPartsArriveAsOneInTheirOrder") {
  const auto seed = static_cast<unsigned>(std::random_device()());
  INFO("seed " << seed);
  std::mt19937 random(seed);
  Pair pair;
  constexpr std::uint64_t kFrames = 3'000;
  std::uint64_t sent = 0;
  REQUIRE(pair.PumpBoth([&] {
    // More than the ring holds: some go in parts, some through a buffer.
    while (sent < kFrames && sent - pair.client.receiver.frames < 16) {
      const std::size_t size = 8 + random() % (FrameBuffer::kCapacity - 7);
      const FrameBufferPtr frame = MakeFrame(&pair.client.pool, sent, size);
      const Bytes bytes(frame->data(), frame->size());
      const std::size_t head = 1 + random() % std::min<std::size_t>(size, 100);
      if (!pair.client.worker
               ->SendParts(pair.client.endpoint, bytes.first(head), bytes.subspan(head),
                           &pair.client.pool)
               .ok()) {
        return true;
      }
      ++sent;
    }
    return pair.client.receiver.frames == kFrames;
  }));
  REQUIRE(pair.client.receiver.numbers.size() == kFrames);
  for (std::uint64_t i = 0; i < kFrames; ++i) REQUIRE(pair.client.receiver.numbers[i] == i);
  CHECK(pair.client.receiver.damaged == 0);
  CHECK(pair.server.receiver.damaged == 0);
}

TEST_CASE("AWindowOfPartsFitsIntoARing") {
  Pair pair;
  REQUIRE(pair.Echoes(1, 64));
  const std::size_t window = pair.client.endpoint->window_bytes();
  CHECK(window >= 2 * limits::kStreamPartBytesMax);
  const FrameBufferPtr frame =
      MakeFrame(&pair.client.pool, 2, limits::kStreamPartBytesMax + limits::kFrameHeaderBytes);
  const Bytes bytes(frame->data(), frame->size());
  for (std::size_t at = 0; at < window; at += limits::kStreamPartBytesMax) {
    REQUIRE(pair.client.worker
                ->SendParts(pair.client.endpoint, bytes.first(limits::kFrameHeaderBytes),
                            bytes.subspan(limits::kFrameHeaderBytes), &pair.client.pool)
                .ok());
  }
  CHECK(pair.client.worker->sends_in_flight() == 0);
}

TEST_CASE("AValueThatLooksLikeAFrameIsNotTakenForOne") {
  // Each lap leaves words behind that look like "a frame of 8 bytes", wherever a frame may begin.
  Pair pair;
  std::vector<std::byte> trap(FrameBuffer::kCapacity);
  for (std::size_t i = 0; i + 8 <= trap.size(); i += 8) {
    StoreUnaligned(trap.data() + i, std::uint64_t{9});
  }
  std::size_t sent = 0;
  pair.server.receiver.on_frame = {};
  REQUIRE(pair.PumpBoth([&] {
    while (sent < 200 && sent - pair.server.receiver.frames < 3) {
      FrameBufferPtr frame = pair.client.pool.Take();
      frame->set_size(trap.size() - sent % 64 * 8);
      std::memcpy(frame->data(), trap.data(), frame->size());
      (void)pair.client.worker->Send(pair.client.endpoint, std::move(frame));
      ++sent;
    }
    return pair.server.receiver.frames >= 200;
  }));
  for (int i = 0; i < 100; ++i) pair.server.Progress();
  CHECK(pair.server.receiver.frames == 200);
}

TEST_CASE("WhoSleepsIsWokenByAFrameAndByRoom") {
  Pair pair;
  REQUIRE(pair.Echoes(1, 64));
  // The server in a thread of its own that always sleeps when it can.
  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> sleeps = 0;
  const auto sleep = [&](RingWorker& worker) {
    if (!worker.Arm()) return;
    pollfd waited{worker.event_fd(), POLLIN, 0};
    if (poll(&waited, 1, 10'000) == 1) ++sleeps;
  };
  std::thread server([&] {
    while (!stop) {
      if (pair.server.worker->Progress() == 0) sleep(*pair.server.worker);
    }
  });
  // 40 frames of 60 KiB together are ten times the size of a ring: both sides wait for room.
  const Deadline deadline = Deadline::AfterMs(kTestDeadlineMs);
  for (std::uint64_t round = 0; round < 50; ++round) {
    for (std::uint64_t i = 0; i < 40; ++i) {
      REQUIRE(
          pair.client.worker
              ->Send(pair.client.endpoint, MakeFrame(&pair.client.pool, i, FrameBuffer::kCapacity))
              .ok());
    }
    while (pair.client.receiver.frames < 1 + (round + 1) * 40 && !deadline.Passed()) {
      if (pair.client.worker->Progress() == 0) sleep(*pair.client.worker);
    }
  }
  CHECK(pair.client.receiver.frames == 1 + 50 * 40);
  CHECK(pair.client.receiver.damaged == 0);
  CHECK_FALSE(deadline.Passed());
  stop = true;
  pair.server.worker->Wake();
  server.join();
  CHECK(sleeps > 0);
}

TEST_CASE("APeerThatClosesIsLostAndWhatItSentBeforeArrives") {
  Pair pair;
  REQUIRE(pair.Echoes(1, 64));
  for (std::uint64_t i = 2; i < 12; ++i) {
    REQUIRE(pair.client.worker->Send(pair.client.endpoint, MakeFrame(&pair.client.pool, i, 1'000))
                .ok());
  }
  pair.client.worker->CloseWhenSent(pair.client.endpoint);
  REQUIRE(
      PumpUntil({pair.server.worker.get()}, [&] { return !pair.server.receiver.lost.empty(); }));
  CHECK(pair.server.receiver.frames == 11);
  CHECK(pair.server.worker->memory_bytes() == 0);
}

TEST_CASE("WhatIsClosedWhileItsRingIsFullStillSendsEverything") {
  Pair pair;
  REQUIRE(pair.Echoes(1, 64));
  for (std::uint64_t i = 2; i < 32; ++i) {
    REQUIRE(
        pair.client.worker
            ->Send(pair.client.endpoint, MakeFrame(&pair.client.pool, i, FrameBuffer::kCapacity))
            .ok());
  }
  CHECK(pair.client.endpoint->bytes_in_flight() > 0);
  pair.client.worker->CloseWhenSent(pair.client.endpoint);
  REQUIRE(pair.PumpBoth([&] { return !pair.server.receiver.lost.empty(); }));
  CHECK(pair.server.receiver.frames == 31);
  CHECK(pair.client.worker->sends_in_flight() == 0);
}

TEST_CASE("AnEndpointMayBeClosedInsideTheCallbacks") {
  Pair pair;
  pair.client.receiver.on_frame = [&](Bytes) { pair.client.worker->Close(pair.client.endpoint); };
  for (std::uint64_t i = 0; i < 5; ++i) {
    REQUIRE(
        pair.client.worker->Send(pair.client.endpoint, MakeFrame(&pair.client.pool, i, 64)).ok());
  }
  REQUIRE(pair.PumpBoth([&] { return !pair.server.receiver.lost.empty(); }));
  CHECK(pair.client.receiver.frames == 1);
}

TEST_CASE("NobodyListensWhereADaemonHasGone") {
  SocketFolder folder;
  std::string address;
  {
    RecordingReceiver receiver;
    address = MakeRingWorker(Listening(folder), &receiver)->Address();
  }
  CHECK(folder.Names().empty());
  RecordingReceiver receiver;
  const auto worker = MakeRingWorker({}, &receiver);
  CHECK(worker->Connect(address).code() == StatusCode::kUnavailable);
  CHECK(worker->Connect("TPRING1l").code() == StatusCode::kInvalidArgument);
  CHECK(worker->Connect("anything").code() == StatusCode::kInvalidArgument);
  CHECK(worker->Connect(worker->Address()).code() == StatusCode::kUnavailable);
}

TEST_CASE("SocketsOfKilledDaemonsAreRemovedByTheNext") {
  SocketFolder folder;
  {
    ForkedChild killed([&] {
      RecordingReceiver receiver;
      const auto worker = MakeRingWorker(Listening(folder), &receiver);
      for (;;) pause();
    });
    const Deadline deadline = Deadline::AfterMs(kTestDeadlineMs);
    while (folder.Names().size() != 1 || folder.Names()[0][0] == '.') {
      REQUIRE_FALSE(deadline.Passed());
      sched_yield();
    }
  }
  CHECK(folder.Names().size() == 1);
  RecordingReceiver receiver;
  const auto worker = MakeRingWorker(Listening(folder), &receiver);
  CHECK(folder.Names().size() == 1);
  // A live worker's files stay.
  const auto another = MakeRingWorker(Listening(folder), &receiver);
  CHECK(folder.Names().size() == 2);
}

namespace {

// The server's end of a connection, once its client has come.
Endpoint* SeenBy(RingServer& server, RingWorker* client, const std::string& address) {
  std::vector<Worker*> workers = {server.worker.get()};
  if (client != nullptr) workers.push_back(client);
  Endpoint* seen = nullptr;
  const auto has_come = [&] {
    const auto connected = server.worker->Connect(address);
    if (connected.ok()) seen = *connected;
    return connected.ok();
  };
  const Deadline deadline = Deadline::AfterMs(60'000);
  while (!has_come() && !deadline.Passed()) {
    for (Worker* worker : workers) worker->Progress();
  }
  REQUIRE(seen != nullptr);
  return seen;
}

UniqueFd Memory(std::size_t bytes, unsigned seals) {
  UniqueFd fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0);
  REQUIRE((seals == 0 || fcntl(fd.get(), F_ADD_SEALS, seals) == 0));
  return fd;
}

}  // namespace

TEST_CASE("PeersOfTheNodeReadAWorkersMemoryWhileItChanges") {
  Pair pair;
  RecordingReceiver receiver;
  const auto worker = MakeRingWorker({}, &receiver);
  const MutableBytes own = worker->MakeSharedMemory(10'000);
  REQUIRE(own.size() >= 10'000);
  CHECK(std::all_of(own.begin(), own.end(), [](std::byte each) { return each == std::byte{0}; }));
  own[9'999] = std::byte{7};
  REQUIRE(worker->Connect(pair.server.worker->Address()).ok());
  Endpoint* const seen = SeenBy(pair.server, worker.get(), worker->Address());
  const Bytes shown = seen->peer_memory();
  REQUIRE(shown.size() == own.size());
  CHECK(shown.data() != own.data());
  CHECK(shown[9'999] == std::byte{7});
  own[0] = std::byte{8};
  CHECK(shown[0] == std::byte{8});
  // The other client shows no memory.
  Endpoint* const other =
      SeenBy(pair.server, pair.client.worker.get(), pair.client.worker->Address());
  CHECK(other->peer_memory().empty());
}

TEST_CASE("MemoryThatCouldHarmItsReaderIsNotMapped") {
  Pair pair;
  const std::string address = pair.server.worker->Address();
  const std::string secret = address.substr(8, kRingIdBytes);
  constexpr unsigned kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  struct Case {
    UniqueFd memory;
    bool is_good;
  };
  std::vector<Case> cases;
  cases.push_back({Memory(8'192, kSeals), true});
  cases.push_back({Memory(8'192, 0), false});          // Its owner could shrink it.
  cases.push_back({Memory(0, kSeals), false});         // Empty.
  cases.push_back({Memory(100, kSeals), false});       // No whole pages.
  cases.push_back({Memory(64 << 20, kSeals), false});  // Too large.
  cases.push_back({UniqueFd(eventfd(0, EFD_CLOEXEC)), false});
  for (const Case& each : cases) {
    auto socket = ConnectToRings(address.substr(8 + kRingPeerBytes));
    REQUIRE(socket.ok());
    const std::string peer = MakeRingId() + std::string(kRingTagBytes, '0');
    REQUIRE(SendHello(socket->get(), {peer, secret}, each.memory.get()).ok());
    Endpoint* const seen = SeenBy(pair.server, nullptr, "TPRING1c" + peer);
    CHECK(seen->peer_memory().empty() == !each.is_good);
    CHECK(pair.Echoes(1, 64));
  }
}

TEST_CASE("WhoDoesNotKnowTheSecretGetsNoRings") {
  Pair pair;
  std::string address = pair.server.worker->Address();
  address[10] = address[10] == 'a' ? 'b' : 'a';
  RingClient stranger(address);
  REQUIRE(stranger.worker->Send(stranger.endpoint, MakeFrame(&stranger.pool, 0, 64)).ok());
  REQUIRE(PumpUntil({pair.server.worker.get(), stranger.worker.get()},
                    [&] { return !stranger.receiver.lost.empty(); }));
  CHECK(stranger.worker->WasRefused(stranger.endpoint));
  CHECK_FALSE(stranger.worker->TakeUnsent(stranger.endpoint).empty());
  CHECK(pair.server.receiver.frames == 0);
  CHECK(pair.Echoes(1, 64));
}

TEST_CASE("WhoComesWhenTheMemoryIsUsedUpGetsNoRings") {
  Pair pair(4 * 256 * 1024);
  REQUIRE(pair.Echoes(1, 64));
  std::vector<std::unique_ptr<RingClient>> clients;
  std::size_t refused = 0;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<RingClient>(pair.server.worker->Address()));
    RingClient& client = *clients.back();
    REQUIRE(client.worker->Send(client.endpoint, MakeFrame(&client.pool, ~0ull, 64)).ok());
    REQUIRE(PumpUntil({pair.server.worker.get(), client.worker.get()}, [&] {
      return !client.receiver.lost.empty() || client.worker->sends_in_flight() == 0;
    }));
    refused += client.receiver.lost.size();
  }
  CHECK(refused > 0);
  CHECK(refused < 8);
  CHECK(pair.server.worker->memory_bytes() <= 4 * 256 * 1024);
  // The room is free again when other clients go.
  clients.clear();
  REQUIRE(pair.PumpBoth([&] { return pair.server.worker->memory_bytes() == 2 * 256 * 1024; }));
  CHECK(pair.Echoes(2, 64));
}

TEST_CASE("WhoConnectsAndSaysNothingOrNonsenseHoldsNobodyUp") {
  Pair pair;
  const std::string path = pair.folder.path() + "/" + pair.folder.Names().at(0);
  std::mt19937_64 random(7);
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 200; ++i) {
    auto socket = ConnectToRings(path);
    if (!socket.ok()) continue;  // The queue of waiting connections is full for a moment.
    char junk[400];
    for (char& each : junk) each = static_cast<char>(random());
    if (i % 2 == 0) (void)send(socket->get(), junk, random() % sizeof junk, MSG_NOSIGNAL);
    silent.push_back(*std::move(socket));
    REQUIRE(pair.Echoes(static_cast<std::uint64_t>(i), 64));
  }
  CHECK(silent.size() > 50);
  RingClient another(pair.server.worker->Address());
  pair.server.Introduce(another.worker->Address());
  CHECK(another.Echoes(1ull << 48, 64, [&] { pair.server.Progress(); }));
}

// As far as the folder's permissions allow.
TEST_CASE("AnotherUserIsShownTheDoor", "[machine]") {
  if (geteuid() != 0) TIDEPOOL_SKIP("only root can be another user");
  Pair pair;
  const std::string path = pair.folder.path() + "/" + pair.folder.Names().at(0);
  REQUIRE(chmod(pair.folder.path().c_str(), 0711) == 0);
  REQUIRE(chmod(path.c_str(), 0666) == 0);
  constexpr uid_t kNobody = 65'534;
  const pid_t other = fork();
  if (other == 0) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    const int socket_of_other = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    char byte = 0;
    const bool is_out =
        setresgid(kNobody, kNobody, kNobody) == 0 && setresuid(kNobody, kNobody, kNobody) == 0 &&
        connect(socket_of_other, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
        read(socket_of_other, &byte, 1) == 0;
    _exit(is_out ? 0 : 1);
  }
  int status = -1;
  CHECK(PumpUntil({pair.server.worker.get()},
                  [&] { return waitpid(other, &status, WNOHANG) == other; }));
  CHECK(status == 0);
  CHECK(pair.Echoes(1, 64));
}

TEST_CASE("RingMessagesDecodeFromAnyBytes") {
  std::mt19937_64 random(11);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes(random() % 400);
    for (std::byte& each : bytes) each = static_cast<std::byte>(random());
    const RingMessage message = DecodeRingMessage(bytes);
    CHECK((message.what == RingMessage::What::kBroken || bytes.size() == 1));
  }
}

}  // namespace tidepool::transport
