// Connections that are cut in the middle of frames, again and again: whatever was under way, the
// client comes back with its session, and each change has happened once and returned what it was to
// return.
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/sdk_fixture.h"
#include "tests/support/random.h"

namespace tidepool::testing {
namespace {

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
  DIR* folder = opendir("/proc/self/fd");
  while (const dirent* entry = folder == nullptr ? nullptr : readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    sockaddr_storage address{};
    socklen_t bytes = sizeof address;
    if (entry->d_name[0] == '.' ||
        getpeername(fd, reinterpret_cast<sockaddr*>(&address), &bytes) < 0)
      continue;
    const std::uint16_t port = PortOf(address);
    if (port != 0 && port != grpc_port) sockets.push_back(fd);
  }
  if (folder != nullptr) closedir(folder);
  return sockets;
}

// Cuts one data connection after another, from a thread of its own. Buffers of sockets are made
// small, so that a frame is seldom sent in one piece.
class Cutter {
 public:
  Cutter(std::uint16_t grpc_port, std::uint64_t seed)
      : grpc_port_(grpc_port), random_("cutter", seed), thread_([this] { Run(); }) {}
  ~Cutter() { Stop(); }
  int Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return cuts_;
  }
  int cuts() const { return cuts_; }

 private:
  void Run() {
    while (!stop_) {
      // Between one tenth and ten times of what a frame takes, and time to come back.
      std::this_thread::sleep_for(std::chrono::microseconds(200 << random_.Below(9)));
      const std::vector<int> sockets = DataSockets(grpc_port_);
      for (const int fd : sockets) {
        const int small = 8 * 1024;
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
      }
      if (sockets.empty()) continue;
      const int fd = sockets[random_.Below(sockets.size())];
      constexpr std::array kWays = {SHUT_RD, SHUT_WR, SHUT_RDWR};
      if (shutdown(fd, kWays[random_.Below(kWays.size())]) == 0) ++cuts_;
    }
  }

  const std::uint16_t grpc_port_;
  test::Random random_;
  std::atomic<bool> stop_{false};
  std::atomic<int> cuts_{0};
  std::thread thread_;
};

std::string ValueOf(std::uint64_t seed, std::size_t bytes) {
  std::string value(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) {
    value[i] = static_cast<char>((seed + i) * 0x9e3779b97f4a7c15ull >> 56);
  }
  return value;
}

// What is under way in one round, and what must come of it.
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
  test::Random random("cuts");
  const std::string address = Cluster().address(0);
  const auto grpc_port =
      static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "cuts", {.partitions = 8});
  // Keys so long that the adds of a round fill frames of 60 KiB.
  std::vector<std::string> counters;
  for (int i = 0; i < 300; ++i) {
    counters.push_back(std::to_string(i) + "/" + std::string(1'000, 'k'));
  }
  Round(map, random, 0).Run(counters);            // Connected, and none is cut yet.
  REQUIRE_FALSE(DataSockets(grpc_port).empty());  // So the cutter finds them, too.
  Cutter cutter(grpc_port, random.Word());
  for (std::int64_t number = 1; number <= kRounds; ++number) {
    INFO("round " << number << ", " << cutter.cuts() << " cuts, seed " << random.seed());
    Round round(map, random, number);
    round.Run(counters);
    REQUIRE(round.wrong_adds == 0);
    REQUIRE(round.wrong_values == 0);
    REQUIRE(round.not_taken == 0);
  }
  const int cuts = cutter.Stop();
  for (const std::string& key : counters) CHECK(map.Get(key)->AsI64() == kRounds + 1);
  std::printf("%d cuts in %d rounds\n", cuts, kRounds);
  CHECK(cuts >= kRounds);
}

}  // namespace
}  // namespace tidepool::testing
