// Peers that are killed, stopped or hostile: each harms itself only.
#include <signal.h>
#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <random>

#include "proto/base/clock.h"
#include "tests/proto/transport/ring_harness.h"

namespace tidepool::transport {
namespace {

int Kills(int otherwise) {
  const char* number = std::getenv("TP_RING_KILLS");
  return number != nullptr ? std::atoi(number) : otherwise;
}

// A child's address, passed through shared memory.
struct SharedAddress {
  std::atomic<int> bytes{0};
  char text[128];
};

SharedAddress* MakeSharedAddress() {
  void* const page = mmap(nullptr, sizeof(SharedAddress), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return new (page) SharedAddress;
}

struct FaultFixture {
  FaultFixture() : server(Settings(folder)), bystander(server.worker->Address()) {
    server.Introduce(bystander.worker->Address());
    REQUIRE(Serves());
  }
  static RingSettings Settings(const SocketFolder& folder) {
    RingSettings settings;
    settings.folder = folder.path();
    return settings;
  }
  bool Serves() {
    ++number;
    return bystander.Echoes(number, 64 + number % 5'000, [&] { server.Progress(); });
  }

  SocketFolder folder;
  RingServer server;
  RingClient bystander;
  std::uint64_t number = 0;
};

// Sends frames of all sizes without end, as the server's client 1, up to `window` unanswered.
void Flood(const std::string& address, SharedAddress* shared, std::uint64_t window) {
  RingClient client(address);
  const std::string own = client.worker->Address();
  std::memcpy(shared->text, own.data(), own.size());
  shared->bytes = static_cast<int>(own.size());
  std::mt19937_64 random(std::random_device{}());
  for (std::uint64_t sent = 0;;) {
    while (sent - client.receiver.frames < window) {
      const std::size_t size = 8 + random() % (sent % 3 == 0 ? FrameBuffer::kCapacity - 7 : 2'000);
      (void)client.worker->Send(client.endpoint, MakeFrame(&client.pool, 1ull << 48 | sent, size));
      ++sent;
    }
    client.worker->Progress();
    client.receiver.numbers.clear();
    client.receiver.sizes.clear();
  }
}

std::string AddressOf(SharedAddress* shared) {
  return std::string(shared->text, static_cast<std::size_t>(shared->bytes.exchange(0)));
}

}  // namespace

TEST_CASE("ClientsThatAreKilledInMidWriteLeaveAllOthersServed", "[storm]") {
  FaultFixture fixture;
  SharedAddress* const shared = MakeSharedAddress();
  std::mt19937_64 random(std::random_device{}());
  fixture.server.Introduce("");
  const int kills = Kills(30);
  for (int i = 0; i < kills; ++i) {
    const std::size_t damaged = fixture.server.receiver.damaged;
    ForkedChild victim([&] { Flood(fixture.server.worker->Address(), shared, 16); });
    const Deadline deadline = Deadline::AfterMs(kTestDeadlineMs);
    while (shared->bytes == 0) {
      REQUIRE_FALSE(deadline.Passed());
      REQUIRE(fixture.Serves());
    }
    fixture.server.addresses[1] = AddressOf(shared);
    for (std::uint64_t rounds = random() % 300; rounds > 0; --rounds) fixture.server.Progress();
    victim.Kill();
    REQUIRE(fixture.Serves());
    CHECK(fixture.server.receiver.damaged == damaged);
    fixture.server.receiver.numbers.clear();
    fixture.server.receiver.sizes.clear();
    fixture.server.receiver.lost.clear();
  }
  // All that is left is the bystander's.
  const Deadline deadline = Deadline::AfterMs(kTestDeadlineMs);
  while (fixture.server.worker->memory_bytes() > 2 * 256 * 1024) {
    REQUIRE_FALSE(deadline.Passed());
    fixture.server.Progress();
  }
  munmap(shared, sizeof *shared);
}

TEST_CASE("AClientThatIsStoppedOrNeverReadsCostsOnlyItself") {
  FaultFixture fixture;
  SharedAddress* const shared = MakeSharedAddress();
  fixture.server.Introduce("");
  ForkedChild stopped([&] { Flood(fixture.server.worker->Address(), shared, 64); });
  const Deadline deadline = Deadline::AfterMs(kTestDeadlineMs);
  while (shared->bytes == 0) {
    REQUIRE_FALSE(deadline.Passed());
    fixture.server.Progress();
  }
  fixture.server.addresses[1] = AddressOf(shared);
  REQUIRE(PumpUntil({fixture.server.worker.get()},
                    [&] { return fixture.server.receiver.frames > 100; }));
  stopped.Signal(SIGSTOP);
  for (int i = 0; i < 2'000; ++i) REQUIRE(fixture.Serves());
  // Its answers wait here, and do not exceed its requests.
  CHECK(fixture.server.endpoints[1]->bytes_in_flight() <= 64 * limits::kFrameBytesMax);
  const std::size_t before = fixture.server.receiver.frames;
  stopped.Signal(SIGCONT);
  CHECK(PumpUntil({fixture.server.worker.get()},
                  [&] { return fixture.server.receiver.frames > before + 100; }));
  munmap(shared, sizeof *shared);
}

// Everything that a client can reach is overwritten while the daemon reads it.
TEST_CASE("ClientsThatOverwriteTheirRingsHarmNobodyElse", "[storm]") {
  FaultFixture fixture;
  fixture.server.echoes_all = false;  // Its random frames may name the bystander.
  const int clients = Kills(30);
  for (int i = 0; i < clients; ++i) {
    const std::string address = fixture.server.worker->Address();
    ForkedChild hostile([&, i] {
      RecordingReceiver receiver;
      const std::string secret = address.substr(8, kRingIdBytes);
      auto socket = ConnectToRings(address.substr(8 + kRingPeerBytes));
      const std::string peer = MakeRingId() + std::string(kRingTagBytes, '0');
      if (!socket.ok() || !SendHello(socket->get(), {peer, secret}).ok()) return;
      RingMessage message;
      while (message.what != RingMessage::What::kWelcome) {
        message = ReceiveRingMessage(socket->get());
        if (message.what == RingMessage::What::kEnd) return;
      }
      const std::uint64_t ring_bytes = message.welcome.ring_bytes;
      auto memory = RingMemory::Map(message.welcome.rings.get(), ring_bytes);
      if (!memory.ok()) return;
      auto* const words = reinterpret_cast<std::uint64_t*>((*memory)->request_words());
      const std::size_t count = (4096 + 4 * ring_bytes) / sizeof *words;
      std::mt19937_64 random(static_cast<std::uint64_t>(i));
      for (std::uint64_t round = 0;; ++round) {
        // Small numbers look like sizes.
        const std::size_t at = round % 4 == 0 ? random() % 64 : random() % count / 8 * 8;
        words[at] = random() % 3 == 0 ? random() : random() % (limits::kFrameBytesMax + 10);
        if (round % 1'000 == 0) RingBell(socket->get());
      }
    });
    const Deadline deadline = Deadline::AfterMs(20);
    while (!deadline.Passed()) REQUIRE(fixture.Serves());
    hostile.Kill();
    REQUIRE(fixture.Serves());
  }
}

}  // namespace tidepool::transport
