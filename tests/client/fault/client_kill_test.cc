// Clients that are killed in mid-traffic, and a daemon that does not mind.
#include <sys/wait.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/harness.h"
#include "tidepool/tidepool.h"

namespace tidepool::testing {
namespace {

constexpr int kClients = 300;

TEST_CASE("300 clients killed in mid-traffic cost nobody else anything", "[client][fault]") {
  TestCluster cluster({.nodes = 1, .memory = "512MiB"});
  cluster.WaitReady();
  ConnectOptions options;
  options.cluster_file = cluster.file();
  auto client = Client::Connect(options);
  REQUIRE(client.ok());
  const auto map = client->OpenOrCreate<BytesMap>("traffic");
  REQUIRE(map.ok());
  REQUIRE(map->Put("large", std::string(3'000'000, 'z')).ok());

  std::atomic<bool> stop{false};
  std::atomic<std::int64_t> served{0};
  std::atomic<int> failed{0};
  std::thread bystander([&] {
    while (!stop) {
      if (map->FetchAdd("bystander", 1).ok()) {
        ++served;
      } else {
        ++failed;
      }
    }
  });

  std::vector<std::size_t> answered(kClients);
  bool all_in_traffic = true;
  for (int i = 0; i < kClients && all_in_traffic; ++i) {
    const std::string stem = cluster.folder() + "/client-" + std::to_string(i);
    Process traffic({ProgramPath("traffic_client"), cluster.file(), std::to_string(i)}, {}, stem);
    const auto adds = static_cast<std::size_t>(1 + i % 20);
    all_in_traffic = WaitUntil([&] { return traffic.Output().size() >= adds; });
    traffic.Signal(SIGKILL);
    const int code = traffic.Wait();
    answered[static_cast<std::size_t>(i)] = traffic.Output().size();
    INFO("client " << i << ": " << traffic.Errors());
    CHECK(code == 128 + SIGKILL);
    const std::int64_t before = served;
    CHECK(WaitUntil([&] { return served > before + 10; }));
  }
  stop = true;
  bystander.join();
  REQUIRE(all_in_traffic);
  CHECK(failed == 0);
  CHECK(map->FetchAdd("bystander", 0).value() == served);

  // Each answered add counts once. An unanswered add counts once or not at all.
  for (std::size_t i = 0; i < answered.size(); ++i) {
    const auto adds = map->FetchAdd("adds-" + std::to_string(i), 0);
    REQUIRE(adds.ok());
    INFO("client " << i);
    CHECK(*adds >= static_cast<std::int64_t>(answered[i]));
    CHECK(*adds <= static_cast<std::int64_t>(answered[i]) + 1);
    // Any part of a begun flush counts.
    const auto buffered = map->FetchAdd("buffered-" + std::to_string(i), 0);
    REQUIRE(buffered.ok());
    const auto rounds = static_cast<std::int64_t>(answered[i] == 0 ? 0 : (answered[i] - 1) / 8);
    CHECK(*buffered >= rounds * 3'000);
    CHECK(*buffered <= (rounds + 1) * 3'000);
  }
}

TEST_CASE("Clients killed while they wait for keys take nothing from others who do",
          "[client][fault]") {
  constexpr int kWaiters = 60;
  TestCluster cluster({.nodes = 1, .memory = "128MiB"});
  cluster.WaitReady();
  ConnectOptions options;
  options.cluster_file = cluster.file();
  auto client = Client::Connect(options);
  REQUIRE(client.ok());
  const auto map = client->OpenOrCreate<BytesMap>("traffic");
  REQUIRE(map.ok());
  const auto version = map->Put("changed", "before");
  REQUIRE(version.ok());
  const CallOptions patient = {.timeout = std::chrono::milliseconds(kPatienceMs)};
  auto key = map->WaitForKeyAsync("waited-7", patient);
  auto change = map->WaitForChangeAsync("changed", *version, patient);
  for (int i = 0; i < kWaiters; ++i) {
    const std::string stem = cluster.folder() + "/waiter-" + std::to_string(i);
    Process waiter({ProgramPath("traffic_client"), cluster.file(), std::to_string(i), "waiting"},
                   {}, stem);
    REQUIRE(WaitUntil([&] { return !waiter.Output().empty(); }));
    waiter.Signal(SIGKILL);
    CHECK(waiter.Wait() == 128 + SIGKILL);
    CHECK(map->FetchAdd("waiters", 0).value() == i + 1);
  }
  // Keys that the dead client waited for arrive, and only living clients notice.
  for (int i = 0; i < 20; ++i) REQUIRE(map->Put("waited-" + std::to_string(i), "there").ok());
  REQUIRE(map->Put("changed", "after").ok());
  CHECK(key.Wait().value().bytes == "there");
  CHECK(change.Wait().value().bytes == "after");
  CHECK(map->FetchAdd("waiters", 0).value() == kWaiters);
}

}  // namespace
}  // namespace tidepool::testing
