// Connections that are cut in the middle of frames, again and again. The client always comes back
// with its session, and each change has happened once and returned the right result.
#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tests/client/sdk_fixture.h"
#include "tests/support/random.h"

namespace tidepool::testing {
namespace {

// The test cuts connections over TCP.
ConnectOptions ByTcp() {
  ConnectOptions options;
  options.transport = Transport::kUcx;
  return options;
}

using std::chrono::milliseconds;

std::uint16_t PortOf(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  }
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  }
  return 0;
}

// This process's connected TCP sockets that are not gRPC's: UCX's, of the only client here.
std::vector<int> DataSockets(std::uint16_t grpc_port) {
  std::vector<int> sockets;
  for (int fd = 3; fd < 256; ++fd) {
    sockaddr_storage address{};
    socklen_t bytes = sizeof address;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &bytes) < 0) continue;
    const std::uint16_t port = PortOf(address);
    if (port != 0 && port != grpc_port) sockets.push_back(fd);
  }
  return sockets;
}

// Cuts data connections from its own thread: a connection that carries frames or, for a while, each
// new connection at once. Buffers of sockets are small, so that a frame is seldom sent in one
// piece.
class Cutter {
 public:
  Cutter(std::uint16_t grpc_port, std::uint64_t seed)
      : grpc_port_(grpc_port), random_("cutter", seed), thread_([this] { Run(); }) {}
  ~Cutter() { Stop(); }
  void Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  int cuts() const { return cuts_; }
  int early_cuts() const { return early_cuts_; }

 private:
  void Run() {
    while (!stop_) {
      // Between a tenth and ten times of the time of a frame, and time to come back.
      std::this_thread::sleep_for(std::chrono::microseconds(200 << random_.Below(9)));
      const std::vector<int> sockets = DataSockets(grpc_port_);
      for (const int fd : sockets) {
        const int small = 8 * 1024;
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
      }
      if (!sockets.empty()) Cut(sockets[random_.Below(sockets.size())]);
      if (random_.Below(4) == 0) CutAllFor(std::chrono::microseconds(random_.Below(30'000)));
    }
  }

  void CutAllFor(std::chrono::microseconds time) {
    const auto until = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < until && !stop_) {
      for (const int fd : DataSockets(grpc_port_)) Cut(fd);
    }
  }

  void Cut(int fd) {
    tcp_info info{};
    socklen_t bytes = sizeof info;
    getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes);
    // UCX's own greetings are less.
    const bool early = info.tcpi_bytes_acked + info.tcpi_bytes_received < kFrameBytes;
    constexpr std::array kWays = {SHUT_RD, SHUT_WR, SHUT_RDWR};
    if (shutdown(fd, kWays[random_.Below(kWays.size())]) != 0) return;
    struct stat socket {};
    fstat(fd, &socket);
    if (cut_.insert(socket.st_ino).second) ++(early ? early_cuts_ : cuts_);
  }

  static constexpr std::uint64_t kFrameBytes = 1'000;
  const std::uint16_t grpc_port_;
  test::Random random_;
  std::unordered_set<ino_t> cut_;
  std::atomic<bool> stop_{false};
  std::atomic<int> cuts_{0};
  std::atomic<int> early_cuts_{0};
  std::thread thread_;
};

std::string ValueOf(std::uint64_t seed, std::size_t bytes) {
  std::string value(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) {
    value[i] = static_cast<char>((seed + i) * 0x9e3779b97f4a7c15ull >> 56);
  }
  return value;
}

// Operations of a round, and their expected results.
class Round {
 public:
  Round(const BytesMap& map, test::Random& random, std::int64_t number)
      : map_(map), random_(random), number_(number) {}

  void Run(const std::vector<std::string>& counters) {
    std::vector<Future<std::int64_t>> adds;
    std::vector<Future<Version>> puts;
    std::vector<std::string> keys;
    std::vector<std::string> values;
    for (int i = 0; i < 24; ++i) {
      keys.push_back("taken" + std::to_string(number_) + "." + std::to_string(i));
      // Every third is streamed.
      const std::size_t most = i % 3 == 0 ? 400'000 : 30'000;
      values.push_back(ValueOf(random_.Word(), 1 + random_.Below(most)));
      puts.push_back(map_.PutAsync(keys.back(), values.back(), {.timeout = kTimeout}));
    }
    for (const std::string& key : counters) {
      adds.push_back(map_.FetchAddAsync(key, 1, {kTimeout}));
    }
    for (auto& put : puts) RequireOk(put.Wait().status());
    std::vector<Future<Value>> takes;
    for (const std::string& key : keys) takes.push_back(map_.TakeAsync(key, {kTimeout}));
    for (auto& add : adds) {
      const auto before = add.Wait();
      RequireOk(before.status());
      if (*before != number_) ++wrong_adds;
    }
    for (std::size_t i = 0; i < takes.size(); ++i) {
      const auto taken = takes[i].Wait();
      RequireOk(taken.status());
      if (taken->bytes != values[i]) ++wrong_values;
      const auto there = map_.Contains(keys[i], {kTimeout});
      RequireOk(there.status());
      if (*there) ++not_taken;
    }
  }

  int wrong_adds = 0;
  int wrong_values = 0;
  int not_taken = 0;

 private:
  static constexpr milliseconds kTimeout{60'000};
  const BytesMap& map_;
  test::Random& random_;
  const std::int64_t number_;
};

TEST_CASE("Whatever is cut, each add counts once and each value is the right one", "[fault]") {
  constexpr int kRounds = 40;
  constexpr int kCuts = 40;  // Cuts of either kind, in any number of rounds.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  test::Random random("cuts");
  const std::string address = Cluster().address(0);
  const auto grpc_port =
      static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  Client client = ConnectTo(Cluster(), ByTcp());
  const BytesMap map = Open<BytesMap>(client, "cuts", {.partitions = 8});
  // Keys are long, so that the adds of a round fill frames of 60 KiB.
  std::vector<std::string> counters;
  for (int i = 0; i < 300; ++i) {
    counters.push_back(std::to_string(i) + "/" + std::string(1'000, 'k'));
  }
  Round(map, random, 0).Run(counters);            // Connected, before the first cut.
  REQUIRE_FALSE(DataSockets(grpc_port).empty());  // The cutter finds them too.
  Cutter cutter(grpc_port, random.Word());
  std::int64_t number = 1;
  for (; number <= kRounds || std::min(cutter.cuts(), cutter.early_cuts()) < kCuts; ++number) {
    REQUIRE(std::chrono::steady_clock::now() < end);
    INFO("round " << number << ", " << cutter.cuts() << " cuts, seed " << random.seed());
    Round round(map, random, number);
    round.Run(counters);
    REQUIRE(round.wrong_adds == 0);
    REQUIRE(round.wrong_values == 0);
    REQUIRE(round.not_taken == 0);
  }
  cutter.Stop();
  for (const std::string& key : counters) CHECK(map.Get(key)->AsI64() == number);
  std::printf("%d cuts, and %d of connections that were only being made, in %d rounds\n",
              cutter.cuts(), cutter.early_cuts(), static_cast<int>(number));
}

// Returns connections that daemons made to this process. UCX notifies their other end, but not this
// end.
std::vector<int> WaysBack() {
  std::set<std::uint16_t> listening;
  std::vector<std::pair<int, std::uint16_t>> sockets;
  for (int fd = 3; fd < 256; ++fd) {
    sockaddr_storage address{};
    socklen_t bytes = sizeof address;
    int listens = 0;
    socklen_t flag_bytes = sizeof listens;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) < 0) continue;
    if (PortOf(address) == 0) continue;
    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &flag_bytes);
    if (listens != 0) listening.insert(PortOf(address));
    if (listens == 0) sockets.emplace_back(fd, PortOf(address));
  }
  std::vector<int> found;
  for (const auto& [fd, port] : sockets) {
    if (listening.count(port) != 0) found.push_back(fd);
  }
  return found;
}

TEST_CASE("A client whose answers' way is cut is told, and gets what it waits for", "[fault]") {
  Client client = ConnectTo(Cluster(), ByTcp());
  auto waits = Open<BytesQueue>(client, "cut-waits");
  const BytesMap map = Open<BytesMap>(client, "cut-map", {.partitions = 8});
  for (int i = 0; i < 5; ++i) {
    // All operations under way are waits, which send nothing for a while.
    auto popped = waits.PopAsync({.wait = milliseconds(60'000)});
    RequireOk(map.Put("key", "value").status());
    int cut = 0;
    for (const int fd : WaysBack()) cut += shutdown(fd, SHUT_RDWR) == 0 ? 1 : 0;
    CHECK(cut > 0);
    Client other = ConnectTo(Cluster(), ByTcp());
    RequireOk(Open<BytesQueue>(other, "cut-waits").Push("item" + std::to_string(i)).status());
    const auto item = popped.Wait();
    RequireOk(item.status());
    CHECK(item->value == "item" + std::to_string(i));
  }
}

}  // namespace
}  // namespace tidepool::testing
